"""What requests name and answers tell: values of objects by size and seed, keys, configurations of puts."""

import _random
import base64
import ctypes

# Longer values repeat a block of this length, a prime: no two pieces of a size that anything cuts objects into are equal,
# and megabytes of noise take seconds to make in an emulated machine.
BLOCK = 65521


def blob(size, seed):
    length = min(size, BLOCK)
    block = _random.Random(seed * 1_000_003 + size).getrandbits(8 * length).to_bytes(length, "little")
    return block if size <= BLOCK else (block * (size // BLOCK + 1))[:size]


def key_of(k):
    return base64.b64decode(k["b64"]) if isinstance(k, dict) else k


def memory(value):
    """Memory with an address: a copy of bytes, or so many zeros. numpy would do the same and take seconds to load."""
    raw = bytearray(value)
    return (ctypes.c_ubyte * len(raw)).from_buffer(raw)


def config(wanted):
    """A ReplicateConfig; `soft_pin` is spelled differently by the releases."""
    if not wanted:
        return None
    from mooncake import store

    c = store.ReplicateConfig()
    for name, value in wanted.items():
        if name != "soft_pin":
            setattr(c, name, value)
        elif hasattr(c, "with_soft_pin"):
            c.with_soft_pin = bool(value)
        else:
            c.soft_pin_action = store.SoftPinAction.ENABLE if value else store.SoftPinAction.DISABLE
    return c


def with_config(arguments, wanted):
    c = config(wanted)
    return arguments if c is None else arguments + [c]


def plain(value):
    """What a store call returned, as JSON."""
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": len(value)}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) or type(value).__module__ == "numpy":
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
