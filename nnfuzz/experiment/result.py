"""The plan and the result of a test, and the interfaces of those who carry it out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from nnfuzz.backend.numeric import Habits
from nnfuzz.backend.outcome import COSTS, Outcome, OutcomeKind, RunLevels, Stage
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.backend.target import ONNX
from nnfuzz.compare.flip import NOBODY, Blame
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import Failure

SHOWN = 300  # characters of a message in the text of a result
FAULT, DEATH, FLAKY, UNDEFINED = "fault", "death", "flaky", "undefined"


class Judging(StrEnum):
    """When outputs are held against the envelope."""

    NEVER = "never"
    DOUBTFUL = "doubtful"  # where some are not close to PyTorch's
    ALWAYS = "always"


@dataclass(frozen=True)
class Run:
    """A model on some targets of one backend. fresh: in a new process. compares: whether outputs
    are compared where the model runs, and sent only if some differ. The rest: see
    nnfuzz.backend.outcome.RunLevels and BackendRunner.submit.
    """

    backend: str
    case: TestCase
    levels: tuple[str, ...]
    fresh: bool = False
    without: tuple[str, ...] = ()
    until: Stage = Stage.EXECUTE
    lazy: bool = False
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
            costs=tuple(kind for kind in COSTS if kind in case.variations),
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
    message. arbitrates: whether onnx.reference is asked about wrong outputs.
    """

    runs: Sequence[Run]
    judging: Judging = Judging.ALWAYS
    repeats: Callable[[Failure], int] = lambda failure: 0
    isolates: Callable[[Failure], bool] = lambda failure: False
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    habits: Mapping[str, Habits] = field(default_factory=dict)
    locates: bool = True
    arbitrates: bool = True


class Compilers(Protocol):
    """Runs models on compilers, each in a process of its own."""

    def run(self, runs: Sequence[Run]) -> list[list[Outcome] | RunnerError]:
        """The outcomes of each run, or why there are none, once all of them have ended."""
        ...


@dataclass(frozen=True)
class Event:
    """Something that is worth a line in the log. kind: FAULT, DEATH, FLAKY or UNDEFINED."""

    kind: str
    backend: str = ""
    stage: str = ""
    signal: str = ""
    message: str = ""
    details: str = ""


class Log:
    """The events of one test."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def fault(self, stage: str, message: str, backend: str = "") -> None:
        """Adds a fault of nnfuzz or of an adapter, once."""
        event = Event(FAULT, backend, stage, "", message)
        self.events += [event] if event not in self.events else []


@dataclass(frozen=True, eq=False, repr=False)
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

    @property
    def ok(self) -> bool:
        """Whether nothing failed, and something was compared where anything ran; a model that a
        compiler does not support is no failure.
        """
        return self.compared and not (self.failures or self.flaky)

    @property
    def compared(self) -> bool:
        """False where a target ran and no element of its outputs could be compared."""
        return not any(o.kind is OutcomeKind.NOT_COMPARED for o in self.outcomes)

    def __str__(self) -> str:
        """A line for each target. The compared share comes first, unless it is nearly all."""
        coverage = self.verdict.coverage if self.verdict and self.verdict.compared else ""
        lines = [f"compared: {coverage}"] if coverage else []
        wrong = self.verdict.mismatches if self.verdict else {}
        for own in self.outcomes:
            plain = own.ok or own.kind is OutcomeKind.NOT_COMPARED
            message = "; ".join(map(str, wrong.get(own.target, ()))) or own.message
            answer = str(own.kind) if plain else f"{own.kind} in {own.stage}"
            lines.append(": ".join(filter(None, (str(own.target), answer, message[:SHOWN]))))
        return "\n".join(lines)

    __repr__ = __str__

    def blame(self, failure: Failure) -> Blame:
        return self.blames.get(failure.signature.hash, NOBODY)

    def by_backend(self) -> dict[str, list[Outcome]]:
        """The outcomes by the backend's label."""
        grouped: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            grouped.setdefault(outcome.backend, []).append(outcome)
        return grouped
