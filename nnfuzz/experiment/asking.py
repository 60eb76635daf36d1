"""What an experiment asks of a producer's worker, whoever owns that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from nnfuzz.backend.deviation import Habits
from nnfuzz.backend.outcome import Outcome
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.pending import Pending
from nnfuzz.experiment.result import Trouble
from nnfuzz.sandbox.events import Reading, Reply
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.service import case_job, judge_job, reference_job

Answer = tuple[Reply | Trouble, float]
"""The event that ends a job, and the seconds that it took."""


class Asking(ABC):
    """The services of an experiment that are jobs of nnfuzz.testcase.service."""

    @abstractmethod
    def ask(
        self, header: dict[str, Any], blobs: dict[str, Any], reading: Reading
    ) -> Pending[Answer]:
        """Hands a job to a worker. reading: of its answer."""

    def judge(
        self,
        case: TestCase,
        outcomes: Sequence[Outcome],
        names: Sequence[str],
        habits: Mapping[str, Habits],
    ) -> Pending[tuple[Verdict | Trouble, float]]:
        asked = self.ask(*judge_job(case, outcomes, names, habits))
        return asked.map(lambda answer: (_value(answer), answer[1]))

    def direct(self, case: TestCase) -> Pending[TestCase | Trouble]:
        return self.ask(*case_job("lower", case)).map(_value)

    def reference(self, case: TestCase) -> Pending[Outcome | Trouble]:
        return self.ask(*reference_job(case)).map(_value)


def _value(answer: Answer) -> Any:
    """What was read of an answer, or the trouble instead."""
    event, _ = answer
    return event.value if isinstance(event, Reply) else event
