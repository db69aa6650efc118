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


def slots(r):
    """How many objects may be in the pool at a time."""
    return max(1, min(512, r["budget"] // r["size"]))


def keys(r):
    return [f"{r['tag']}/{n}" for n in range(min(slots(r), 64))]


def fill(r):
    """Writes what will be read."""
    names, size = keys(r), r["size"]
    address = room(size).ctypes.data
    return sum(rc != 0 for rc in STATE["store"].batch_put_from(names, [address] * len(names), [size] * len(names)))


def put(r, times):
    """Writes objects for a time, and removes them whenever the room is full."""
    store, errors, number, until = STATE["store"], 0, 0, NOW() + r["secs"]
    address = room(r["size"]).ctypes.data
    while NOW() < until or len(times) < 3:
        written = []
        while len(written) < slots(r) and (NOW() < until or len(times) < 3):
            key, number = f"{r['tag']}/{number}", number + 1
            began = NOW()
            rc = store.put_from(key, address, r["size"])
            times.append(NOW() - began)
            errors += rc != 0
            written.append(key)
        store.batch_remove(written, True)
    return errors


def get(r, times):
    """Reads objects for a time, and compares the last one."""
    store, errors, names, size, until = STATE["store"], 0, keys(r), r["size"], NOW() + r["secs"]
    buffer = room(size)
    address = buffer.ctypes.data
    buffer[:size] = 0
    while NOW() < until or len(times) < 3:
        key = names[len(times) % len(names)]
        began = NOW()
        got = store.get_into(key, address, size)
        times.append(NOW() - began)
        errors += got != size
    return errors


def move(r):
    times, used = [], time.process_time()
    errors = {"put": put, "get": get}[r["what"]](r, times)
    used = time.process_time() - used
    times.sort()
    return {
        "count": len(times), "bytes": r["size"] * len(times), "seconds": sum(times), "errors": errors, "cpu": used,
        "p50": times[len(times) // 2], "p99": times[min(len(times) - 1, len(times) * 99 // 100)],
    }


def clear(r):
    """Compares what was read last with what was written, and removes it all."""
    buffer, size = room(r["size"]), r["size"]
    same = bool((buffer[:size] == pattern(size)).all())
    buffer[:size] = pattern(size)
    STATE["store"].batch_remove(keys(r), True)
    return same


OPS = {"setup": setup, "fill": fill, "move": move, "clear": clear}


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with its parent
    for line in sys.stdin:
        r = json.loads(line)
        try:
            answer = {"id": r["id"], "ok": True, "value": OPS[r["op"]](r)}
        except Exception as e:
            answer = {"id": r["id"], "ok": False, "error": f"{type(e).__name__}: {e}"}
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()
    if "store" in STATE:
        STATE["store"].close()
    os._exit(0)


main()
