"""The same rollouts through Ray's object store: two nodes of Ray, one producer on the first, a consumer on each.

It speaks the lines of JSON of interop/testdata/worker.py. It is to be started in a network namespace of its own: Ray listens
on all addresses of its machine.
"""

import fcntl
import json
import os
import socket
import struct
import sys
import time
import traceback

# Ray may print: answers go through a private copy of stdout, everything else to stderr.
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
os.dup2(2, 1)

SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40


def loopback_up():
    """In a new namespace the loopback device is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP | IFF_RUNNING))


class Consumer:
    """Takes what the producer has put; its own time counts, without the call to it."""

    def take(self, box, r):
        import ray

        start = time.perf_counter()
        got = ray.get(box[0])
        ms = (time.perf_counter() - start) * 1e3
        import rollout

        return ms, rollout.difference(got, rollout.content(r))


class Nodes:
    def __init__(self, folder, memory):
        import ray
        from ray.cluster_utils import Cluster

        node = {"num_cpus": 2, "object_store_memory": memory, "node_ip_address": "127.0.0.1"}
        head = {"include_dashboard": False, "resources": {"near": 1}, "temp_dir": folder}
        self.cluster = Cluster(initialize_head=True, head_node_args={**node, **head})
        self.cluster.add_node(resources={"far": 1}, **node)
        ray.init(address=self.cluster.address, log_to_driver=False)
        kind = ray.remote(Consumer)
        self.near = kind.options(resources={"near": 1}).remote()
        self.far = kind.options(resources={"far": 1}).remote()

    def hand(self, r):
        import ray
        import rollout

        data = rollout.content(r)
        start = time.perf_counter()
        ref = ray.put(data)
        put_ms = (time.perf_counter() - start) * 1e3
        near_ms, near = ray.get(self.near.take.remote([ref], r))
        far_ms, far = ray.get(self.far.take.remote([ref], r))
        return {"put_ms": put_ms, "near_ms": near_ms, "far_ms": far_ms, "diff": near or far}

    def close(self):
        import ray

        ray.shutdown()
        self.cluster.shutdown()


def main():
    nodes = None
    for line in sys.stdin:
        r = json.loads(line)
        try:
            if r["op"] == "start":
                import ray

                loopback_up()
                nodes = Nodes(r["folder"], r["memory"])
                value = ray.__version__
            else:
                value = nodes.hand(r)
            answer = {"id": r["id"], "ok": True, "value": value}
        except Exception as e:
            answer = {"id": r["id"], "ok": False, "error": f"{type(e).__name__}: {e}", "trace": traceback.format_exc(limit=-2)}
        ANSWERS.write(json.dumps(answer) + "\n")
    if nodes:
        nodes.close()


main()
