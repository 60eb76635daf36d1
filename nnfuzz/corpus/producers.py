"""Workers that make the entries of a corpus side by side. Answers come in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.base.reading import Json
from nnfuzz.corpus.layout import Entry
from nnfuzz.sandbox.events import Limits, Reply, event_line
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Ended, Pool, Sandbox, Worker
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.client import PRELOAD, working
from nnfuzz.testcase.identity import TestId
from nnfuzz.testcase.jobs import made_for

SERVICE = "nnfuzz.corpus.service:corpus_service"
LIMITS = Limits(seconds=120.0, jobs_per_process=1000)
AHEAD = 4
"""Answers per worker that wait for an earlier one, so that one slow test does not stop the rest."""


@dataclass(frozen=True)
class MakeEntry(Job[Entry | NotProduced]):
    """Makes the test case of an id, with tolerances; NotProduced where its outputs mean nothing."""

    test: TestId

    def accept(self, answer: Entry | NotProduced) -> Entry | NotProduced:
        made = answer.case if isinstance(answer, Entry) else answer
        made_for(self.test, made)
        return answer


@dataclass
class _Order:
    """event: the end of the job, once it has ended."""

    job: MakeEntry
    event: Ended | None = None


class _Maker(Worker[_Order]):
    """One worker."""

    def begin(self, order: _Order) -> None:
        self.sandbox.submit(order.job)


class Producers(Pool[_Maker, _Order]):
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
        orders, most = map(_Order, map(MakeEntry, tests)), AHEAD * len(self.workers)
        waiting: deque[_Order] = deque()

        def more(worker: _Maker) -> _Order | None:
            order = next(orders, None) if len(waiting) < most else None
            waiting.extend([order] if order else [])
            return order

        while True:
            self.dispatch(more)
            if not waiting:
                return
            if (event := waiting[0].event) is None:
                self.wait()
                continue
            test = waiting.popleft().job.test
            if isinstance(event, Reply):
                yield event.value
            else:
                yield NotProduced(test, "fault", event_line(event))

    def ended(self, worker: _Maker, order: _Order, result: Ended) -> None:
        """Raises: ProducerSettingsError, ProducerUnavailable."""
        order.event = working(result)
