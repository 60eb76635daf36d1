"""The compilers of a lane in a campaign, with counts of their time and of their faults."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from nnfuzz.backend.outcome import Outcome
from nnfuzz.backend.runner import AdapterFault, BackendRunner, RunnerError
from nnfuzz.experiment.compilers import CompilerProcesses

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
