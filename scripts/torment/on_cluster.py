"""Runs nnfuzz fuzz --ray on a cluster of this machine; nodes that die are replaced.

python -m scripts.torment.on_cluster --nodes 3 -- -b onnxruntime --tests 1000 --out campaign

The nodes are Ray's cluster utilities: a raylet, with one core, and a folder of its own for each.
What follows -- are options of nnfuzz fuzz. chaos.py has faults happen to all of this, and
cluster.py compares with one process.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Self

ONE = {"num_cpus": 1, "memory": 4 << 30, "object_store_memory": 80 << 20}
LOOK_SECONDS = 1.0
SETTINGS = {
    "RAY_worker_niceness": "0",  # 15 by default: beside anything else, nodes would starve
    "RAY_raylet_start_wait_time_s": "300",  # 30 by default, too few where many start at a time
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="only keep the nodes, until stdin ends")
    parser.add_argument("rest", nargs="*", help="options of nnfuzz fuzz, behind --")
    options = parser.parse_args()
    if options.keep:
        keep(options.nodes)
        return
    import ray

    from nnfuzz.cli.main import application, run

    with keeper(options.nodes) as address:
        ray.init(address=address, log_to_driver=False)
        run(lambda: application()(["fuzz", *options.rest, "--ray"]))


def keep(count: int) -> None:
    """Prints the address of a cluster, and replaces nodes that die until stdin ends."""
    nodes = Nodes(count)
    print(nodes.address, flush=True)
    while not select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
        nodes.replace()
    nodes.close()


@contextlib.contextmanager
def keeper(count: int) -> Iterator[str]:
    """The address of a cluster whose nodes another process keeps: Ray starts nodes in main threads
    alone, and a campaign occupies the one of this process.
    """
    command = [sys.executable, "-m", __spec__.name, "--keep", "--nodes", str(count)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        if not (address := process.stdout.readline().strip()):
            sys.exit("Ray did not start; what it says stands above")
        yield address


class Nodes:
    """A cluster whose head has no core to lend; as a context, this process is connected to it."""

    def __init__(self, count: int) -> None:
        from ray.cluster_utils import Cluster

        os.environ.update(SETTINGS)
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.there: dict[str, Any] = {}
        """By the name that Ray gives them."""
        for _ in range(count):
            self.add()

    def __enter__(self) -> Self:
        import ray

        ray.init(address=self.address, log_to_driver=False)
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        ray.shutdown()
        self.close()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def close(self) -> None:
        self._cluster.shutdown()

    def add(self) -> str:
        node = self._cluster.add_node(**ONE)
        self.there[node.node_id] = node
        return str(node.node_id)

    def kill(self, name: str) -> None:
        """With all of its processes, at once."""
        self._cluster.remove_node(self.there.pop(name), allow_graceful=False)

    def replace(self) -> None:
        """Has another node where one has died."""
        for name, node in [*self.there.items()]:
            if not node.remaining_processes_alive():
                self.kill(name)
                self.add()


if __name__ == "__main__":
    main()
