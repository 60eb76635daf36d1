"""What an experiment asks of a producer's worker, whoever owns that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from nnfuzz.compare.mismatch import Verdict
from nnfuzz.execute.deviation import Habits
from nnfuzz.execute.events import Reply
from nnfuzz.execute.outcome import Outcome
from nnfuzz.experiment.pending import Pending
from nnfuzz.experiment.result import Trouble
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.service import case_job, judge_job, reference_outcome

Answer = tuple[Reply | Trouble, float]
"""The event that ends a job, and the seconds that it took."""


class Asking(ABC):
    """The services of an experiment that are jobs of nnfuzz.testcase.service."""

    @abstractmethod
    def ask(self, header: dict[str, Any], blobs: dict[str, Any]) -> Pending[Answer]:
        """Hands a job to a worker."""

    def judge(
        self,
        case: TestCase,
        outcomes: Sequence[Outcome],
        names: Sequence[str],
        habits: Mapping[str, Habits],
    ) -> Pending[tuple[Verdict | Trouble, float]]:
        def verdict(answer: Answer) -> tuple[Verdict | Trouble, float]:
            event, seconds = answer
            if isinstance(event, Reply):
                return Verdict.from_json(event.header["verdict"]), seconds
            return event, seconds

        return self.ask(*judge_job(case, outcomes, names, habits)).map(verdict)

    def direct(self, case: TestCase) -> Pending[TestCase | Trouble]:
        def made(answer: Answer) -> TestCase | Trouble:
            event, _ = answer
            if isinstance(event, Reply):
                return TestCase.from_frame(event.header["case"], event.blobs)
            return event

        return self.ask(*case_job("lower", case)).map(made)

    def reference(self, case: TestCase) -> Pending[Outcome | Trouble]:
        def outcome(answer: Answer) -> Outcome | Trouble:
            event, _ = answer
            return reference_outcome(case, event) if isinstance(event, Reply) else event

        return self.ask(*case_job("reference", case)).map(outcome)
