"""The compilers of a lane in a campaign: their time, their faults, and after which time a run of
one looks like a hang.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from nnfuzz.backend.outcome import Outcome
from nnfuzz.backend.runner import AdapterFault, BackendRunner, RunnerError
from nnfuzz.experiment.compilers import CompilerProcesses

FEW = 20  # fewer runs do not show how long a run usually takes
TIMES = 20.0  # the multiple of the slowest run so far that every run gets


class Pace:
    """How long the runs of one compiler take.

    ceiling: its time limit for one level, in seconds. least: seconds that every run gets.
    """

    def __init__(self, ceiling: float, least: float) -> None:
        self.ceiling, self._least = ceiling, least
        self._slowest, self._runs = 0.0, 0

    def expect(self, seconds: float) -> None:
        """Notes how long the slowest elementary model took, where that is known."""
        if seconds:
            self._slowest, self._runs = max(self._slowest, seconds), FEW

    def add(self, seconds: float) -> None:
        """Notes the seconds of a level that has ended by itself."""
        self._slowest, self._runs = max(self._slowest, seconds), self._runs + 1

    @property
    def limit(self) -> float:
        """The seconds after which a level looks like a hang."""
        if self._runs < FEW:
            return self.ceiling
        return min(self.ceiling, max(self._least, TIMES * self._slowest))


PATIENCE = 20  # faults in a row after which a compiler, or a lane, is beyond help


class CountedProcesses(CompilerProcesses):
    """beyond_help: why a compiler cannot run any further test; "" while all can.

    A mistake of an adapter costs one test, unless no model did well before.
    """

    def __init__(self, runners: Mapping[str, BackendRunner], works: Iterable[str]) -> None:
        """works: labels of the compilers on which some model did well before."""
        super().__init__(runners, strict=False)
        self.beyond_help = ""
        self._works, self._faults = {*works}, Counter[str]()
        self._cpu: defaultdict[str, float] = defaultdict(float)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def note(self, runner: BackendRunner, answer: list[Outcome] | RunnerError) -> None:
        """Counts the answer to a run."""
        name = runner.name
        worked = runner.sandbox.take_cpu()
        if isinstance(answer, RunnerError):
            self._faults[name] += 1
            hopeless = isinstance(answer, AdapterFault) and name not in self._works
            if hopeless or self._faults[name] >= PATIENCE:
                self.beyond_help = str(answer)
            return
        self._faults[name] = 0
        inside = sum(outcome.cpu for outcome in answer)
        self._cpu["compilers"] += inside
        self._cpu["workers"] += max(0.0, worked - inside)
        self._seconds[name] += sum(sum(outcome.seconds.values()) for outcome in answer)
        if any(outcome.ok for outcome in answer):
            self._works.add(name)

    def taken(self) -> tuple[dict[str, float], dict[str, float]]:
        """CPU seconds in compilers and around them in their processes, and wall seconds in
        compilers by backend, since the last call.
        """
        taken = dict(self._cpu), dict(self._seconds)
        self._cpu.clear()
        self._seconds.clear()
        return taken
