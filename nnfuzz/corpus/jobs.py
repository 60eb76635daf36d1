"""The jobs of a worker that makes entries of a corpus (nnfuzz.corpus.service)."""

from __future__ import annotations

from dataclasses import dataclass

from nnfuzz.corpus.entry import Entry
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.job import Job
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import TestId
from nnfuzz.testcase.jobs import made_for


@dataclass(frozen=True)
class MakeEntry(Job[Entry | NotProduced]):
    """Makes the test case of an id, with tolerances. sets: of inputs, the test case's own included.

    Where its outputs mean nothing, the answer is a NotProduced.
    """

    test: TestId
    sets: int = 1

    @property
    def about(self) -> str:
        return str(self.test)

    def accept(self, answer: Entry | NotProduced) -> Entry | NotProduced:
        made = answer.case if isinstance(answer, Entry) else answer
        made_for(self.test, made)
        return answer


@dataclass(frozen=True, eq=False)
class CompleteEntry(Job[Entry]):
    """Adds tolerances to a test case of any origin, unless its outputs mean nothing."""

    case: TestCase

    def accept(self, answer: Entry) -> Entry:
        answer.case.checked()
        return answer


@dataclass(frozen=True)
class ListKeys(Job[list[SupportKey]]):
    """Names all operator signatures that may be generated."""


@dataclass(frozen=True)
class ListInstances(Job[list[int]]):
    """Numbers the models of one operator that are the first to show some value of an attribute.

    key: one of `ListKeys`.
    """

    key: SupportKey
