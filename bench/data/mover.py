"""A published client that moves objects and times it: JSON lines in, JSON lines out.

Without memory in the pool it is a client, with it the process that holds a segment.
"""

import ctypes
import json
import os
import signal
import sys
import time

ANSWERS = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
os.dup2(2, 1)  # the native library may print

NOW = time.perf_counter
STATE = {}


def setup(r):
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    rc = store.setup("127.0.0.1", "P2PHANDSHAKE", r["segment"], r["buffer"], "tcp", "", r["master"])
    STATE["store"] = store
    return rc


def pattern(size):
    import numpy as np

    return np.resize(np.arange(251, dtype=np.uint8), size)


def room(size):
    """A registered buffer of at least so many bytes, filled with the pattern."""
    import numpy as np

    if STATE.get("size", 0) < size:
        store = STATE["store"]
        if "buffer" in STATE:
            store.unregister_buffer(STATE["buffer"].ctypes.data)
        STATE["buffer"], STATE["size"] = np.empty(size, np.uint8), size
        if store.register_buffer(STATE["buffer"].ctypes.data, size) != 0:
            raise RuntimeError("the buffer is not taken")
        STATE["buffer"][:] = pattern(size)
    return STATE["buffer"]


def move(r):
    """Puts or gets objects for a time; the room in the pool bounds how many there are at once."""
    size, store, times, errors = r["size"], STATE["store"], [], 0
    buffer = room(size)
    address, slots = buffer.ctypes.data, max(1, min(512, r["budget"] // size))
    if r["what"] == "put":
        used, until, number = time.process_time(), NOW() + r["secs"], 0
        while NOW() < until or len(times) < 3:
            written = []
            while len(written) < slots and (NOW() < until or len(times) < 3):
                key, number = f"{r['tag']}/{number}", number + 1
                began = NOW()
                rc = store.put_from(key, address, size)
                times.append(NOW() - began)
                errors += rc != 0
                written.append(key)
            store.batch_remove(written, True)
        used = time.process_time() - used
    else:
        keys = [f"{r['tag']}/{n}" for n in range(min(slots, 64))]
        errors += sum(rc != 0 for rc in store.batch_put_from(keys, [address] * len(keys), [size] * len(keys)))
        buffer[:size] = 0
        used, until = time.process_time(), NOW() + r["secs"]
        while NOW() < until or len(times) < 3:
            key = keys[len(times) % len(keys)]
            began = NOW()
            got = store.get_into(key, address, size)
            times.append(NOW() - began)
            errors += got != size
        used = time.process_time() - used
        if not (buffer[:size] == pattern(size)).all():
            raise RuntimeError(f"{r['tag']}: something else was read than was written")
        store.batch_remove(keys, True)
    times.sort()
    return {
        "count": len(times), "bytes": size * len(times), "seconds": sum(times), "errors": errors, "cpu": used,
        "p50": times[len(times) // 2], "p99": times[min(len(times) - 1, len(times) * 99 // 100)],
    }


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with its parent
    for line in sys.stdin:
        r = json.loads(line)
        try:
            answer = {"id": r["id"], "ok": True, "value": {"setup": setup, "move": move}[r["op"]](r)}
        except Exception as e:
            answer = {"id": r["id"], "ok": False, "error": f"{type(e).__name__}: {e}"}
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()
    if "store" in STATE:
        STATE["store"].close()
    os._exit(0)


main()
