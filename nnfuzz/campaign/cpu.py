"""CPU time of the tests of a session, by kind of process."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from nnfuzz.campaign.backend_pool import BackendPool
from nnfuzz.campaign.producer_pool import ProducerPool


class CpuMeter:
    """Counts from `begin` to `end`. phases: CPU seconds of producers by phase of a test case."""

    def __init__(self, producers: ProducerPool, backends: Iterable[BackendPool]) -> None:
        self.phases: defaultdict[str, float] = defaultdict(float)
        self._producers, self._backends = producers, list(backends)
        self._before: dict[str, float] = {}
        self._after: dict[str, float] | None = None

    def begin(self) -> None:
        """Leaves out earlier work: starting, determining habits, probing."""
        self._before = self._spent()
        self.phases.clear()

    def end(self) -> None:
        """Leaves out later work: reductions after the last test."""
        self._after = self._spent()

    def per_test(self, tests: int, probes: int = 0) -> dict[str, float | dict[str, float]]:
        """Milliseconds per test: `compilers` inside of their stages, `own` everything else, and
        the parts of that. The workers' own part is their work before and behind the stages.

        probes: how many models of one operator ran meanwhile, to learn what compilers support.
        Their time, compilers included, is listed separately, per test too: they get fewer with
        time. The parent does the same for a probe as for a test.
        """
        spent = {
            who: seconds - self._before.get(who, 0.0)
            for who, seconds in (self._after or self._spent()).items()
        }
        parent = spent["parent"] * probes / max(1, tests + probes)
        spent["parent"] -= parent
        probing = _milliseconds(spent.pop("probes") + parent, tests)
        shares = {who: _milliseconds(seconds, tests) for who, seconds in spent.items()}
        own = _milliseconds(sum(spent.values()) - spent["compilers"], tests)
        phases = {name: _milliseconds(s, tests) for name, s in sorted(self.phases.items())}
        return {"own": own, **shares, "phases": phases, "probes": probing}

    def add_phases(self, seconds: Mapping[str, float]) -> None:
        """Adds those of one test case."""
        for phase, spent in seconds.items():
            self.phases[phase] += spent

    def _spent(self) -> dict[str, float]:
        """CPU seconds so far; of other processes, up to the end of their last jobs."""
        compilers = sum(pool.compiler_cpu for pool in self._backends)
        return {
            "compilers": compilers,
            "parent": time.process_time(),
            "producers": self._producers.cpu["producers"],
            "judge": self._producers.cpu["judge"],
            "workers": max(0.0, sum(pool.cpu for pool in self._backends) - compilers),
            "probes": self._producers.cpu["probes"] + sum(p.probe_cpu for p in self._backends),
        }


def _milliseconds(seconds: float, tests: int) -> float:
    return round(1e3 * seconds / tests, 3) if tests else 0.0
