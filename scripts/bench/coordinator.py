"""Measures the CPU time per test of a cluster's coordinator, with simulated nodes.

python -m scripts.bench.coordinator --nodes 1000 --tests 1000000

A simulated node is a sequence of reports on a simulated clock: it asks for ranges, publishes them,
and reports findings and reductions. With --ray, the coordinator is a Ray actor that gets several
reports at a time; the CPU time of its idle process is printed as well.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.parts.leases import Leases
from nnfuzz.records import schedule
from nnfuzz.records.lending import Lent, NodeReport

TOGETHER = 16  # concurrent reports, with --ray
IDLE_SECONDS = 20.0
AHEAD = 32  # tests that a node of two cores has at hand
Sent = tuple[NodeReport, float]  # a report and its time in seconds on the simulated clock


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--tests", type=int, default=2_000_000)
    parser.add_argument("--rate", type=float, default=50.0, help="tests per second of a node")
    parser.add_argument("--findings", type=float, default=0.001, help="new signatures per test")
    parser.add_argument("--epoch", type=int, default=1 << 18, help="tests in the longest one")
    parser.add_argument("--ray", action="store_true", help="with an actor of Ray's")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "leases.sqlite")
        simulation = _Simulation(options)
        (_with_ray if options.ray else _alone)(options, path, simulation)
        size = path.stat().st_size >> 10
    first, half, end = simulation.marks
    print(
        f"{options.nodes} nodes of {options.rate:g} tests/s, {options.tests:,} tests, epochs of up "
        f"to {options.epoch:,}; the file has {size:,} KiB; load {os.getloadavg()[0]:.1f}"
    )
    for name, begin, stop in (("first", first, half), ("second", half, end)):
        spent = stop.cpu - begin.cpu
        reports, tests = stop.reports - begin.reports, stop.tests - begin.tests
        print(
            f"{name} half: {reports:,} reports, {spent / reports * 1e6:.0f} us of CPU each, "
            f"{spent / tests * 1e6:.2f} us per test; {tests / (stop.now - begin.now):,.0f} tests/s "
            f"of simulated time, {spent / (stop.now - begin.now):.2f} cores"
        )
    return 0


def _alone(options: argparse.Namespace, path: Path, simulation: _Simulation) -> None:
    spent = 0.0
    with Leases(path, options.tests, longest=options.epoch) as leases:

        def sync(reports: list[Sent]) -> list[Lent]:
            nonlocal spent
            before = time.process_time()
            lent = [leases.sync(*report) for report in reports]
            spent += time.process_time() - before
            return lent

        simulation.run(sync, lambda: (spent, leases.kept), 1)
        assert leases.kept == options.tests and leases.over


def _with_ray(options: argparse.Namespace, path: Path, simulation: _Simulation) -> None:
    import ray

    class Actor:
        def __init__(self, path: str, limit: int, longest: int) -> None:
            self._leases = Leases(path, limit, longest=longest)

        def sync(self, report: NodeReport, now: float) -> Lent:
            return self._leases.sync(report, now)

        def state(self) -> tuple[float, int]:
            used = resource.getrusage(resource.RUSAGE_SELF)
            return used.ru_utime + used.ru_stime, self._leases.kept

    ray.init("local", num_cpus=1, log_to_driver=False, include_dashboard=False)
    actor = ray.remote(Actor).options(num_cpus=0).remote(str(path), options.tests, options.epoch)
    state = lambda: ray.get(actor.state.remote())  # noqa: E731
    before = state()[0]
    time.sleep(IDLE_SECONDS)
    print(f"idle: {(state()[0] - before) / IDLE_SECONDS:.3f} cores")
    simulation.run(
        lambda reports: ray.get([actor.sync.remote(*report) for report in reports]), state, TOGETHER
    )
    ray.shutdown()


@dataclass(frozen=True)
class _Mark:
    """reports, tests and CPU seconds of the coordinator up to a time on the simulated clock."""

    now: float
    reports: int
    tests: int
    cpu: float


class _Simulation:
    """Nodes on a simulated clock. Epochs are decided as soon as they can be."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._rng = random.Random(1)
        self._begun = 1
        self.marks: list[_Mark] = []
        """At the beginning, when half of the tests are published, and at the end."""

    def run(
        self,
        sync: Callable[[list[Sent]], list[Lent]],
        state: Callable[[], tuple[float, int]],
        together: int,
    ) -> None:
        """sync: sends reports and returns the answers. state: CPU seconds and number of published
        tests. together: most reports that are sent before the first one is answered.
        """
        reports, over = 0, False
        turns = [(self._rng.random(), number) for number in range(self._options.nodes)]
        nodes = [_Node(f"{number:016x}", self._options, self._rng) for number in range(len(turns))]
        heapq.heapify(turns)
        self._mark(0.0, 0, state)
        while not over:
            due = [heapq.heappop(turns) for _ in range(min(together, len(turns)))]
            sent = [(nodes[number].report(now, self._begun), now) for now, number in due]
            for (now, number), lent in zip(due, sync(sent)):
                over = lent.over
                heapq.heappush(turns, (now + nodes[number].take_leases(lent, now), number))
            reports += len(due)
            if lent.observed >= schedule.begins(self._begun, self._options.epoch):
                self._begun += 1
            half = len(self.marks) == 1 and lent.observed >= self._options.tests / 2
            if half or over:
                self._mark(now, reports, state)

    def _mark(self, now: float, reports: int, state: Callable[[], tuple[float, int]]) -> None:
        cpu, tests = state()
        self.marks.append(_Mark(now, reports, tests, cpu))


class _Node:
    """One node: it runs its ranges in order, and publishes every twenty seconds."""

    def __init__(self, name: str, options: argparse.Namespace, rng: random.Random) -> None:
        self._name, self._options, self._rng = name, options, rng
        self._ends: dict[int, float] = {}  # of ranges, by first index
        self._sizes: dict[int, int] = {}
        self._busy_until = self._published = 0.0

    def report(self, now: float, begun: int) -> NodeReport:
        ran = [first for first, end in self._ends.items() if end <= now]
        kept: list[int] = []
        if now >= self._published + 20 or now >= self._busy_until:
            self._published, kept = now, ran
        new = [f"{self._rng.getrandbits(48):012x}" for _ in ran if self._rng.random() < self._new]
        claims = tuple((signature, f"cluster of {signature}") for signature in new)
        found = tuple((signature, "wrong value at Conv (all levels)") for signature in new)
        held = sum(size for first, size in self._sizes.items() if self._ends[first] > now)
        dry = (self._busy_until - now) * self._options.rate <= AHEAD + 1e-6
        return NodeReport(
            self._name, held + 1 if dry else 0, tuple(ran), tuple(kept), begun, claims, found=found
        )

    @property
    def _new(self) -> float:
        return min(1.0, self._options.findings * 64)  # in a range of about so many tests

    def take_leases(self, lent: Lent, now: float) -> float:
        """Seconds until the next report."""
        for lease in lent.leases:
            if lease.first not in self._ends:
                begins = max(now, self._busy_until)
                self._busy_until = begins + len(lease) / self._options.rate
                self._ends[lease.first] = self._busy_until
                self._sizes[lease.first] = len(lease)
        held = {lease.first for lease in lent.leases}
        self._ends = {first: end for first, end in self._ends.items() if first in held}
        self._sizes = {first: size for first, size in self._sizes.items() if first in held}
        times = [*self._ends.values(), self._busy_until - AHEAD / self._options.rate]
        coming = [time - now for time in times if time > now + 1e-6]
        return min([lent.pace, *coming])


if __name__ == "__main__":
    sys.exit(main())
