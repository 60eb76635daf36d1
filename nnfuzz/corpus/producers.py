"""Workers that make the entries of a corpus side by side; answers come in order all the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, TypeVar

from nnfuzz.corpus.entry import Entry
from nnfuzz.corpus.jobs import CompleteEntry, ListInstances, ListKeys, MakeEntry
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.events import Death, Fault, Limits, Progress, Reply, Trouble, described
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Sandbox, wait
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.client import PRELOAD, ProducerSettingsError, ProducerUnavailable
from nnfuzz.testcase.identity import Probe, TestId
from nnfuzz.testcase.service import blames_settings

SERVICE = "nnfuzz.corpus.service:corpus_service"
LIMITS = Limits(seconds=120.0, jobs_per_process=1000, still_seconds=120.0)
AHEAD = 4
"""Answers per worker that wait for an earlier one, so that one slow test does not stop the rest."""
J = TypeVar("J", bound=Job[Any])


class Producers:
    """Any number of workers, each with the same settings. A context manager."""

    def __init__(self, seed: int, config: Mapping[str, Any], processes: int, sets: int = 1) -> None:
        """sets: data sets per test case."""
        arguments = {"seed": seed, "config": dict(config)}
        self._sets = sets
        with ExitStack() as stack:
            server = ForkServer((*PRELOAD, "nnfuzz.corpus.service"), warm=(SERVICE, arguments))
            stack.callback(server.close)
            self._sandboxes = [
                stack.enter_context(Sandbox(SERVICE, arguments, LIMITS, (), "producer", server))
                for _ in range(processes)
            ]
            self._stack = stack.pop_all()

    def __enter__(self) -> Producers:
        return self

    def __exit__(self, kind: type | None, error: object, trace: TracebackType | None) -> None:
        self._stack.close()

    def entries(self, tests: Iterable[TestId]) -> Iterator[Entry | NotProduced]:
        """What comes of the tests, in their order. A worker that dies is a NotProduced.

        Raises: ProducerSettingsError, ProducerUnavailable.
        """
        for job, event in self._answers(MakeEntry(test, self._sets) for test in tests):
            if isinstance(event, Reply):
                yield event.value
            else:
                yield NotProduced(job.test, "fault", described(event))

    def completed(self, case: TestCase) -> Entry | str:
        """A test case of any origin with tolerances, or what went wrong."""
        event = self._sandboxes[0].call(CompleteEntry(case))
        return event.value if isinstance(event, Reply) else described(event)

    def signatures(self) -> list[SupportKey]:
        """All signatures that may be generated, each with an exporter.

        Raises: ProducerSettingsError, ProducerUnavailable.
        """
        ((_, event),) = self._answers([ListKeys()])
        if not isinstance(event, Reply):
            raise ProducerUnavailable(described(event))
        return event.value

    def instances(self, keys: Iterable[SupportKey]) -> Iterator[list[TestId]]:
        """Of each signature, models of one operator that show all values of its attributes.

        Raises: ProducerSettingsError, ProducerUnavailable.
        """
        for job, event in self._answers(map(ListInstances, keys)):
            numbers = event.value if isinstance(event, Reply) else []
            yield [Probe(job.key, number) for number in numbers]

    def _answers(self, jobs: Iterable[J]) -> Iterator[tuple[J, Reply[Any] | Trouble]]:
        """Each job's end, in the order of the jobs, which are taken as workers become free."""
        jobs, most = iter(jobs), AHEAD * len(self._sandboxes)
        order: deque[tuple[J, Sandbox]] = deque()
        ended: dict[Sandbox, deque[Reply[Any] | Trouble]] = {s: deque() for s in self._sandboxes}
        while True:
            for sandbox in self._sandboxes:
                if not sandbox.busy and len(order) < most and (job := next(jobs, None)):
                    sandbox.submit(job)
                    order.append((job, sandbox))
            if not order:
                return
            if waiting := ended[order[0][1]]:
                yield order.popleft()[0], waiting.popleft()
                continue
            for sandbox, event in wait(self._sandboxes):
                if not isinstance(event, Progress):
                    ended[sandbox].append(_working(event))


def _working(event: Reply[Any] | Trouble) -> Reply[Any] | Trouble:
    """The event. Raises: ProducerSettingsError, ProducerUnavailable where no worker can start."""
    if isinstance(event, Fault) and event.starting:
        if blames_settings(event.error_type):
            raise ProducerSettingsError(event.message.strip("\"'"))
        raise ProducerUnavailable(f"{described(event)}\n{event.traceback}")
    if isinstance(event, Death) and event.stage == "start":
        raise ProducerUnavailable(f"{described(event)}\n{event.captured}")
    return event
