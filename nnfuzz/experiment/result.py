"""The plan, the services and the result of an experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from nnfuzz.backend.deviation import Habits
from nnfuzz.backend.jobs import RunLevels
from nnfuzz.backend.outcome import Outcome, Stage
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.backend.target import ONNX
from nnfuzz.compare.flip import NOBODY, Blame
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.pending import Pending
from nnfuzz.sandbox.events import Trouble
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import Failure


class Judging(StrEnum):
    """When outputs are held against the envelope."""

    NEVER = "never"
    DOUBTFUL = "doubtful"  # where some are not close to PyTorch's
    ALWAYS = "always"


@dataclass(frozen=True)
class Run:
    """A model on some targets of one backend. fresh: in a new process. slow: whether it is known to
    hang, so that nobody else should wait for it. compares: whether
    outputs are compared where the model runs, and sent only if some differ. The rest: see
    nnfuzz.backend.jobs.RunLevels and BackendRunner.submit.
    """

    backend: str
    case: TestCase
    levels: tuple[str, ...]
    fresh: bool = False
    without: tuple[str, ...] = ()
    until: Stage = Stage.EXECUTE
    lazy: bool = False
    slow: bool = False
    seconds: float = math.inf
    compares: bool = False

    def submit(self, runner: BackendRunner) -> None:
        """Hands it to a runner. Raises: as nnfuzz.backend.runner.BackendRunner.submit."""
        case = self.case
        job = RunLevels(
            case.source(runner.reads),
            case.inputs,
            self.levels,
            self.without,
            self.until,
            self.lazy,
            invalid=case.fault is not None,
            expected={name: array.nbytes for name, array in case.expected.items()},
            reference=case.expected if self.compares else None,
        )
        runner.submit(job, form_of(case, runner), self.seconds)


def form_of(case: TestCase, runner: BackendRunner) -> str:
    """The form of the targets: the writer of the model, or the form that the backend reads."""
    return case.exporter if runner.reads == ONNX else runner.reads


@dataclass(frozen=True)
class Plan:
    """The plan of an experiment.

    runs: the first runs. repeats: in how many fresh processes a failure must occur in the same
    way. isolates: whether a failure is worth running the targets that isolate its fault. levels: by
    compiler, the least optimised first. habits: by backend; mismatches that a habit explains are
    one failure. locates: whether beginnings of a model are run if a process dies of it without a
    message.
    """

    runs: Sequence[Run]
    judging: Judging = Judging.ALWAYS
    repeats: Callable[[Failure], int] = lambda failure: 0
    isolates: Callable[[Failure], bool] = lambda failure: False
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    habits: Mapping[str, Habits] = field(default_factory=dict)
    locates: bool = True


class Services(Protocol):
    """Services that run, judge and write models; each call starts the work and returns."""

    def run(self, run: Run) -> Pending[list[Outcome] | RunnerError]: ...

    def judge(
        self,
        case: TestCase,
        outcomes: Sequence[Outcome],
        names: Sequence[str],
        habits: Mapping[str, Habits],
    ) -> Pending[tuple[Verdict | Trouble, float]]:
        """The verdict and the seconds that it took. names: the outputs to look at; none for all."""
        ...

    def direct(self, case: TestCase) -> Pending[TestCase | Trouble]:
        """The same test case in the direct form."""
        ...

    def reference(self, case: TestCase) -> Pending[Outcome | Trouble]:
        """Starts ONNX's reference evaluator on the model."""
        ...


@dataclass(frozen=True)
class Event:
    """Something that is worth a line in the log. kind: fault, death, flaky or undefined."""

    kind: str
    backend: str = ""
    stage: str = ""
    signal: str = ""
    message: str = ""
    details: str = ""


@dataclass(frozen=True, eq=False)
class Result:
    """The result of an experiment.

    outcomes: of the first runs, `mismatch` where the verdict has one. extra: of the runs that
    isolate a fault. failures: those that all repetitions showed; flaky: the others. repeats: by
    signature, how many of how many repetitions failed in the same way. blames: by signature.
    comparable: mean share of the elements that the verdict rests on; None unless all outputs were
    judged. agreed: whether all outputs are close to PyTorch's. seconds: in the comparison.
    """

    case: TestCase
    outcomes: tuple[Outcome, ...]
    verdict: Verdict | None = None
    failures: tuple[Failure, ...] = ()
    flaky: tuple[Failure, ...] = ()
    repeats: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    blames: Mapping[str, Blame] = field(default_factory=dict)
    extra: tuple[Outcome, ...] = ()
    comparable: float | None = None
    agreed: bool = False
    seconds: float = 0.0
    events: tuple[Event, ...] = ()

    def blame(self, failure: Failure) -> Blame:
        return self.blames.get(failure.signature.hash, NOBODY)

    def by_backend(self) -> dict[str, list[Outcome]]:
        """The outcomes by the backend's label."""
        grouped: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            grouped.setdefault(outcome.backend, []).append(outcome)
        return grouped
