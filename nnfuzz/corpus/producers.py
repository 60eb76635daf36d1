"""Workers that make the entries of a corpus side by side, and their jobs. Answers come in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from nnfuzz.base.reading import Json
from nnfuzz.corpus.layout import Entry
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.events import Limits, Reply, event_line
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Ended, Pool, Sandbox, Worker
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.client import PRELOAD, ProducerUnavailable, working
from nnfuzz.testcase.identity import Probe, TestId
from nnfuzz.testcase.jobs import made_for

SERVICE = "nnfuzz.corpus.service:corpus_service"
LIMITS = Limits(seconds=120.0, jobs_per_process=1000)
AHEAD = 4
"""Answers per worker that wait for an earlier one, so that one slow test does not stop the rest."""
J = TypeVar("J", bound=Job[Any])


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


@dataclass
class _Order(Generic[J]):
    """event: the end of the job, once it has ended."""

    job: J
    event: Ended | None = None


class _Maker(Worker[_Order[Any]]):
    """One worker."""

    def begin(self, order: _Order[Any]) -> None:
        self.sandbox.submit(order.job)


class Producers(Pool[_Maker, _Order[Any]]):
    """Any number of workers, each with the same settings. A context manager."""

    def __init__(
        self,
        seed: int,
        config: Mapping[str, Json],
        processes: int,
        cache: Path | None = None,
    ) -> None:
        """cache: folder in which judgements on operators are kept for other processes."""
        arguments = {"seed": seed, "config": dict(config), "cache": str(cache or "")}
        preload = *PRELOAD, "nnfuzz.corpus.service"
        self._server = server = ForkServer(preload, warm=(SERVICE, arguments))
        super().__init__(
            _Maker(Sandbox(SERVICE, arguments, LIMITS, server)) for _ in range(processes)
        )

    def close(self) -> None:
        super().close()
        self._server.close()

    def entries(self, tests: Iterable[TestId]) -> Iterator[Entry | NotProduced]:
        """The results of the tests, in their order. A worker that dies is a NotProduced.

        Raises: ProducerSettingsError, ProducerUnavailable.
        """
        for job, event in self._answers(map(MakeEntry, tests)):
            if isinstance(event, Reply):
                yield event.value
            else:
                yield NotProduced(job.test, "fault", event_line(event))

    def signatures(self) -> list[SupportKey]:
        """All signatures that may be generated, each with an exporter.

        Raises: ProducerSettingsError, ProducerUnavailable.
        """
        ((_, event),) = self._answers([ListKeys()])
        if not isinstance(event, Reply):
            raise ProducerUnavailable(event_line(event))
        return event.value

    def instances(self, keys: Iterable[SupportKey]) -> Iterator[list[TestId]]:
        """Of each signature, models of one operator that show all values of its attributes.

        Raises: ProducerSettingsError, ProducerUnavailable.
        """
        for job, event in self._answers(map(ListInstances, keys)):
            numbers = event.value if isinstance(event, Reply) else []
            yield [Probe(job.key, number) for number in numbers]

    def ended(self, worker: _Maker, order: _Order[Any], result: Ended) -> None:
        """Raises: ProducerSettingsError, ProducerUnavailable."""
        order.event = working(result)

    def _answers(self, jobs: Iterable[J]) -> Iterator[tuple[J, Ended]]:
        """Each job's end, in the order of the jobs, which are taken as workers become free."""
        orders, most = map(_Order, jobs), AHEAD * len(self.workers)
        waiting: deque[_Order[J]] = deque()

        def more(worker: _Maker) -> _Order[J] | None:
            order = next(orders, None) if len(waiting) < most else None
            waiting.extend([order] if order else [])
            return order

        while True:
            self.dispatch(more)
            if not waiting:
                return
            if (event := waiting[0].event) is not None:
                yield waiting.popleft().job, event
            else:
                self.wait()
