"""The jobs that an experiment gives to a producer's worker, whichever pool owns the worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

from nnfuzz.backend.deviation import Habits
from nnfuzz.backend.outcome import Outcome
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.pending import Pending
from nnfuzz.sandbox.events import Reply, Trouble
from nnfuzz.sandbox.job import Job
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.jobs import ComputeReference, Judge, Lower

A = TypeVar("A")
TimedEnd = tuple[Reply[A] | Trouble, float]
"""The event that ends a job, and the seconds that it took."""


class Asking(ABC):
    """The services of an experiment that are jobs of nnfuzz.testcase.jobs."""

    @abstractmethod
    def ask(self, job: Job[A]) -> Pending[TimedEnd[A]]:
        """Hands a job to a worker."""

    def judge(
        self,
        case: TestCase,
        outcomes: Sequence[Outcome],
        names: Sequence[str],
        habits: Mapping[str, Habits],
    ) -> Pending[tuple[Verdict | Trouble, float]]:
        asked = self.ask(Judge.of(case, outcomes, names, habits))
        return asked.map(lambda answer: (_value(answer), answer[1]))

    def direct(self, case: TestCase) -> Pending[TestCase | Trouble]:
        return self.ask(Lower(case)).map(_value)

    def reference(self, case: TestCase) -> Pending[Outcome | Trouble]:
        return self.ask(ComputeReference(case)).map(_value)


def _value(answer: TimedEnd[A]) -> A | Trouble:
    """The value read from an answer, or the trouble in its place."""
    event, _ = answer
    return event.value if isinstance(event, Reply) else event
