"""Runs one campaign in one process and on several nodes, and compares test cases and findings.

python -m scripts.torment.cluster --tests 2000 --nodes 4 --kill -- --exporter direct --set reduce=no

The nodes are those of on_cluster.py. With --kill, while the campaign runs: a node is killed
with all its processes, then the coordinator, another node, and the process of a third one's actor;
a new node joins.
What follows -- are options of nnfuzz fuzz. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from scripts.campaigns import contents, differences, run_fuzz
from scripts.torment.on_cluster import Nodes

CACHE = "XDG_CACHE_HOME"  # by which our processes are known as well
OWN = str(os.getpid())
COMPARED = ("tests", "occurrences", "signatures")


def main() -> int:
    options = _options()
    folder = Path(options.out or tempfile.mkdtemp(prefix="nnfuzz-cluster-"))
    folder.mkdir(parents=True, exist_ok=True)
    fuzz = ["-b", options.backend, "--tests", str(options.tests), "--seed", str(options.seed)]
    fuzz += options.rest
    os.environ[CACHE] = str(folder / "cache")
    if not (folder / "one").exists():
        _timed("one process", lambda: run_fuzz(*fuzz, "--out", folder / "one"))
    many = folder / ("killed" if options.kill else "nodes")
    for old in (many, many.with_name(f"{many.name}.cluster")):
        shutil.rmtree(old, ignore_errors=True)
    _timed(f"{options.nodes} nodes", lambda: _on_cluster(options, [*fuzz, "--out", str(many)]))
    one, other = contents(folder / "one"), contents(many)
    print(f"{len(one['tests'])} tests, {len(one['signatures'])} signatures, in {folder}")
    found = {group: [*differences({group: one[group]}, other)] for group in COMPARED}
    for group, lines in found.items():
        print(f"{group}: {lines[0] if lines else 'the same'}")
    return int(any(found.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--tests", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kill", action="store_true", help="nodes and the coordinator on the way")
    parser.add_argument("--out", help="folder of the campaigns; that of one process is kept there")
    parser.add_argument("rest", nargs="*", help="further options of nnfuzz fuzz, behind --")
    return parser.parse_args()


def _timed(name: str, call: Callable[[], Any]) -> None:
    began = time.monotonic()
    with _Meter() as meter:
        call()
    seconds, load = time.monotonic() - began, os.getloadavg()[0]
    print(f"{name}: {seconds:.0f} s, {meter.summary()}, load {load:.1f}", flush=True)


class _Meter:
    """CPU seconds of this process and of all behind it, Ray's included, looked at every
    second, so that the last one of each is missing.
    """

    def __enter__(self) -> Self:
        self._used: dict[int, tuple[str, float]] = {}
        self._before: dict[int, float] = {}
        self._look()
        self._before = {pid: used for pid, (_, used) in self._used.items()}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def summary(self) -> str:
        sums = Counter[str]()
        for pid, (name, used) in self._used.items():
            sums[name] += used - self._before.get(pid, 0.0)
        shares = ", ".join(f"{name} {used:.0f}" for name, used in sums.most_common(4))
        return f"{sum(sums.values()):.0f} s of CPU ({shares})"

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            self._look()

    def _look(self) -> None:
        mark, tick = f"{CACHE}={os.environ[CACHE]}".encode(), os.sysconf("SC_CLK_TCK")
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0") or entry.name == OWN:
                    command, rest = (entry / "stat").read_text().rsplit(")", 1)
                    name = command.partition("(")[2].removesuffix(")")
                    used = sum(map(int, rest.split()[11:13])) / tick
                    self._used[int(entry.name)] = "Ray" if _of_ray(name, entry) else "nnfuzz", used


def _of_ray(name: str, entry: Path) -> bool:
    """Whether it is a process of Ray's own, and no actor."""
    own = b"dashboard", b"log_monitor", b"monitor.py", b"runtime_env"
    command = (entry / "cmdline").read_bytes()
    return name in ("raylet", "gcs_server") or any(word in command for word in own)


def _on_cluster(options: argparse.Namespace, command: list[str]) -> None:
    """The same command with --ray, in this process, so that it can be watched."""
    from nnfuzz.cli.main import application
    from nnfuzz.cluster import on_ray

    run = on_ray.run
    with Nodes(options.nodes) as nodes:
        killer = _Killer(nodes, options.tests)
        on_ray.run = lambda *args: run(*args, watch=killer if options.kill else _nothing)
        try:
            application()(["fuzz", *command, "--ray"], standalone_mode=False)
        finally:
            on_ray.run = run


def _nothing(campaign: Any, state: Any) -> None: ...


class _Killer:
    """Kills something whenever another eighth of the tests is published."""

    def __init__(self, nodes: Nodes, tests: int) -> None:
        self._nodes, self._tests = nodes, tests
        self._left = [self._node, self._coordinator, self._join, self._node, self._actor]

    def __call__(self, campaign: Any, state: Any) -> None:
        due = (6 - len(self._left)) * self._tests / 8
        if self._left and state.kept >= due:
            print(f"at {state.kept} tests: {self._left.pop(0)(campaign, state)}", flush=True)

    def _node(self, campaign: Any, state: Any) -> str:
        name = next(iter(self._nodes.there))
        self._nodes.kill(name)
        return f"node {name[:8]} is killed"

    def _coordinator(self, campaign: Any, state: Any) -> str:
        os.kill(state.pid, signal.SIGKILL)
        return "the coordinator is killed"

    def _join(self, campaign: Any, state: Any) -> str:
        return f"node {self._nodes.add()[:8]} joins"

    def _actor(self, campaign: Any, state: Any) -> str:
        import ray

        name = next(iter(self._nodes.there))
        os.kill(ray.get(campaign.actors[name].pid.remote()), signal.SIGKILL)
        return f"the actor of node {name[:8]} is killed"


if __name__ == "__main__":
    sys.exit(main())
