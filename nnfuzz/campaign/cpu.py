"""CPU time of the tests of a session, by kind of process."""

from __future__ import annotations

import time
from collections import defaultdict

from nnfuzz.campaign.lane_jobs import TestReport
from nnfuzz.testcase.identity import Probe


class CpuMeter:
    """Counts the CPU time of lanes and of this process between `begin` and `end`. The questions
    before the first test and the reductions after the last one are left out.
    """

    def __init__(self) -> None:
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._probes, self._began = 0, time.process_time()
        self._ended: float | None = None

    def begin(self) -> None:
        self._began = time.process_time()

    def end(self) -> None:
        self._ended = time.process_time()

    def add(self, report: TestReport) -> None:
        """Counts one test, or one probe."""
        if self._ended is None:
            self._probes += isinstance(report.evidence.test, Probe)
            for who, seconds in report.cpu.items():
                self._spent[who] += seconds

    def per_test(self, tests: int, probing: bool = False) -> dict[str, float]:
        """Milliseconds per test: `compilers` inside of their stages, `own` everything else, and
        the parts of that: this process (`parent`), `lanes`, and the work of compilers' processes
        before and behind the stages (`workers`).

        probing: whether probes are all that the session is for. The time of other probes, compilers
        included, is listed separately, per test too: they get fewer with time. This process does
        the same for a probe as for a test.
        """
        parent = (time.process_time() if self._ended is None else self._ended) - self._began
        probes = 0 if probing else self._probes
        of_probes = parent * probes / max(1, tests + probes)
        spent = {"parent": parent - of_probes, "lanes": 0.0, "workers": 0.0, **self._spent}
        for_probes = of_probes + spent.pop("probes", 0.0)
        compilers = spent.pop("compilers", 0.0)
        shares = {"own": sum(spent.values()), "compilers": compilers, **spent, "probes": for_probes}
        return {name: _milliseconds(seconds, tests) for name, seconds in shares.items()}


def _milliseconds(seconds: float, tests: int) -> float:
    return round(1e3 * seconds / tests, 3) if tests else 0.0
