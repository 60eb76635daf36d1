"""Runs nnfuzz fuzz --ray on a cluster of this machine; nodes that die are replaced.

python -m scripts.torment.on_cluster --nodes 3 -- -b onnxruntime --tests 1000 --out campaign

The nodes are Ray's cluster utilities: a raylet, with one core, and a folder of its own for each.
What follows -- are options of nnfuzz fuzz. chaos.py has faults happen to all of this, and
cluster.py compares with one process.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
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
    parser.add_argument("rest", nargs="*", help="options of nnfuzz fuzz, behind --")
    options = parser.parse_args()
    from nnfuzz.cli.main import application, run

    with Nodes(options.nodes, replaces=True):
        run(lambda: application()(["fuzz", *options.rest, "--ray"]))


class Nodes:
    """A cluster that this process is connected to; its head has no core to lend. replaces: whether
    another node comes where one has died.
    """

    def __init__(self, count: int, replaces: bool = False) -> None:
        from ray.cluster_utils import Cluster

        os.environ.update(SETTINGS)
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.there: dict[str, Any] = {}
        """By the name that Ray gives them."""
        for _ in range(count):
            self.add()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._replace)
        if replaces:
            self._thread.start()

    def __enter__(self) -> Self:
        import ray

        ray.init(address=self._cluster.address, log_to_driver=False)
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        ray.shutdown()
        self._cluster.shutdown()

    def add(self) -> str:
        node = self._cluster.add_node(**ONE)
        self.there[node.node_id] = node
        return str(node.node_id)

    def kill(self, name: str) -> None:
        """With all of its processes, at once."""
        self._cluster.remove_node(self.there.pop(name), allow_graceful=False)

    def _replace(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for name, node in [*self.there.items()]:
                if not node.remaining_processes_alive():
                    self.kill(name)
                    self.add()


if __name__ == "__main__":
    sys.exit(main())
