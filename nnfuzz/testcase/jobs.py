"""The jobs of a producer's worker: making and judging test cases; and the evaluator's worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nnfuzz.backend.numeric import NO_HABITS, Deviation, Habits
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.packed_values import evaluated
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.ir.sizes import from_copies
from nnfuzz.sandbox.events import Death, DeathKind
from nnfuzz.sandbox.job import Job, Report, Service, does
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.identity import TestId

REFERENCE = "onnx.reference"
"""The compiler in the target of ONNX's reference evaluator."""


@dataclass(frozen=True)
class Produce(Job[TestCase | NotProduced]):
    """Makes the test case of an id. died: signal and last words of the process in which its
    exporter wrote the model before: PyTorch's are not asked again, and the test ends there.
    """

    test: TestId
    died: tuple[str, str] | None = None

    def after(self, event: object) -> Produce | None:
        """The job without the exporter, if its process died of that; else None."""
        if self.died or not isinstance(event, Death) or event.stage != Stage.EXPORT:
            return None
        if event.kind is not DeathKind.CRASH or event.from_outside:
            return None
        return replace(self, died=(event.signal, event.captured))

    def accept(self, answer: TestCase | NotProduced) -> TestCase | NotProduced:
        return made_for(self.test, answer)


def made_for(test: TestId, made: TestCase | NotProduced) -> TestCase | NotProduced:
    """The checked result. Raises: ValueError if it is damaged, or not of this test."""
    if made.id != test:
        raise ValueError(f"{made.id} instead of {test}")
    return made.checked()


@dataclass(frozen=True)
class Vocabulary:
    """The signatures that a producer may use. signatures: keys by exporter. variables: by operator,
    the first input that binds each type variable, in a key's order. notes: lines for the user.
    """

    signatures: dict[str, list[str]]
    variables: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ListVocabulary(Job[Vocabulary]):
    """Says which operator signatures there are with the settings of the producer."""


@dataclass(frozen=True)
class Configure(Job[None]):
    """Changes the configuration under which the next jobs are done."""

    config: CaseConfig


@dataclass(frozen=True, eq=False)
class CheckCase(Job[None]):
    """Raises Unreadable in the worker if the case has no valid graph, or inputs that are not for
    it.
    """

    case: TestCase


@dataclass(frozen=True, eq=False)
class _Remake(Job[TestCase]):
    case: TestCase

    def accept(self, answer: TestCase) -> TestCase:
        return answer.checked()


class Lower(_Remake):
    """Writes the case in the direct form."""


class Expose(_Remake):
    """Makes every computed value an output."""


@dataclass(frozen=True, eq=False)
class ComputeReference(Job[Outcome]):
    """Has ONNX's reference evaluator compute the model; where it cannot, it has no opinion."""

    case: TestCase

    def accept(self, answer: Outcome) -> Outcome:
        release, form = answer.target.release, self.case.exporter
        known = answer.target == Target(REFERENCE, release, form=form)
        if not known or answer.kind not in (OutcomeKind.OK, OutcomeKind.UNSUPPORTED):
            raise ValueError(f"{answer.kind} of {answer.target} from the reference evaluator")
        return answer


@dataclass(frozen=True, eq=False)
class ComputedReference:
    """The outputs of a target. habits: of its compiler."""

    target: Target
    outputs: Mapping[str, np.ndarray]
    habits: tuple[Deviation, ...] = ()


@dataclass(frozen=True, eq=False)
class Judge(Job[Verdict]):
    """Holds the outputs of targets against the envelope. names: of the outputs to look at; none
    for all.
    """

    case: TestCase
    results: tuple[ComputedReference, ...]
    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        case: TestCase,
        outcomes: Iterable[Outcome],
        names: Sequence[str] = (),
        habits: Mapping[str, Habits] = NO_HABITS,
    ) -> Judge:
        """The job for the outcomes that have outputs. habits: by backend."""
        results = (
            ComputedReference(o.target, _named(o.outputs, names), tuple(habits.get(o.backend, ())))
            for o in outcomes
            if o.outputs is not None
        )
        return cls(case, tuple(results), tuple(names))


def _named(outputs: Mapping[str, np.ndarray], names: Sequence[str]) -> Mapping[str, np.ndarray]:
    return {n: array for n, array in outputs.items() if not names or n in names}


class ReferenceService(Service):
    """ONNX's reference evaluator, which needs no PyTorch."""

    @does(ComputeReference)
    def reference(self, job: ComputeReference, report: Report) -> Outcome:
        import onnx

        target = Target(REFERENCE, onnx.__version__, form=job.case.exporter)
        try:
            outputs = from_copies(evaluated(job.case.model, inputs) for inputs in job.case.fed)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            return Outcome(OutcomeKind.UNSUPPORTED, Stage.EXECUTE, target, message=message)
        outputs = {name: np.asarray(result) for name, result in outputs.items()}
        return Outcome(OutcomeKind.OK, Stage.EXECUTE, target, outputs=outputs)


def reference_service() -> ReferenceService:
    """The factory of a service that only computes references."""
    return ReferenceService()
