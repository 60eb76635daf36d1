"""The jobs of a worker that makes entries of a corpus (nnfuzz.corpus.service)."""

from __future__ import annotations

from dataclasses import dataclass

from nnfuzz.corpus.layout import Entry
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.job import Job
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import TestId
from nnfuzz.testcase.jobs import made_for


@dataclass(frozen=True)
class MakeEntry(Job[Entry | NotProduced]):
    """Makes the test case of an id, with tolerances; NotProduced where its outputs mean nothing."""

    test: TestId

    def accept(self, answer: Entry | NotProduced) -> Entry | NotProduced:
        made = answer.case if isinstance(answer, Entry) else answer
        made_for(self.test, made)
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
