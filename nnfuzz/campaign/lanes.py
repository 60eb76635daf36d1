"""The lanes of a campaign, as its own process sees them: each has a range of tests in hand."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.lane_jobs import Compiler, Enter, Order, RunTests, Told
from nnfuzz.campaign.processes import PATIENCE
from nnfuzz.campaign.untested import REDUCE, RUN, lost
from nnfuzz.findings.reducer_job import ReduceFinding
from nnfuzz.records.config import CampaignConfig
from nnfuzz.sandbox.events import (
    Death,
    Event,
    Limits,
    Progress,
    Reply,
    Trouble,
    WorkerFault,
    event_line,
)
from nnfuzz.sandbox.forkserver import ForkClient, ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.pool import Ended, JobWorker, Pool
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import TestId
from nnfuzz.testcase.jobs import Produce

A = TypeVar("A")
SERVICE = "nnfuzz.campaign.lane_service:lane_service"
PRELOAD = ("onnx.reference", "nnfuzz.campaign.lane_service")
UNSTARTED, OUTSIDE = -2, -1  # in place of an epoch: no process yet, or one without an epoch
MOST_SECONDS = 3600.0
"""Limit for running, judging and confirming one test, and for a reduction: their processes have
limits of their own.
"""
MOST_RETURNS = 3
"""How often a test is begun anew after somebody outside has killed its lane, each time after
MOST_KILLS of nnfuzz.sandbox.sandbox: then the test itself may make somebody kill its lanes.
"""


class PoolError(RuntimeError):
    """Lanes fail one after the other: the campaign cannot go on. test: at which that showed, if it
    has no record.
    """

    def __init__(self, message: str, test: TestId | None = None) -> None:
        super().__init__(message)
        self.test = test


@dataclass(frozen=True)
class LaneOrder:
    """A job of a lane: a range of tests, the beginning of an epoch, or a reduction."""

    job: RunTests | Enter | ReduceFinding


class LaneSlot(JobWorker[LaneOrder]):
    """One lane. epoch: that it has entered. told: how many tests of its range have ended. tell:
    called with what it tells of each.
    """

    epoch = UNSTARTED
    told = 0

    def __init__(self, sandbox: Sandbox, tell: Callable[[Told], None]) -> None:
        super().__init__(sandbox)
        self._tell = tell

    def begin(self, order: LaneOrder) -> None:
        self.told = 0
        super().begin(order)

    def feed(self, event: Event) -> Ended | None:
        if not isinstance(event, Progress):
            return event
        test = self.left[0].test  # with its place, which the lane does not know
        told: Told = event.value
        self.told += 1
        self._tell(replace(told, evidence=replace(told.evidence, test=test)))
        return None

    def drop(self) -> None:
        """Ends its process, and with that the tests that it is at."""
        self.sandbox.close()
        self.order = None

    @property
    def left(self) -> tuple[Order, ...]:
        """The tests of its range that have not ended."""
        job = self.order.job if self.order else None
        return job.orders[self.told :] if isinstance(job, RunTests) else ()


class Lanes(Pool[LaneSlot, LaneOrder, Ended]):
    """Lanes that work under the settings of an epoch; one of an older epoch enters that first.

    tell: called with everything that is told of a test. reduced: called with the end of a
    reduction and its seconds. returned: tests whose lane has ended
    without a word of them, to be run again.
    """

    def __init__(
        self,
        config: CampaignConfig,
        compilers: Sequence[ForkClient],
        cache: Path,
        only_reduces: bool = False,
    ) -> None:
        """compilers: the fork servers of the backends, in their order; they are left open.
        only_reduces: whether there are no tests to be made.
        """
        self._config = config
        self.tell: Callable[[Told], None] = lambda told: None
        self.reduced: Callable[[ReduceFinding, Ended, float], None] = lambda *end: None
        arguments = {
            "config": as_json(config),
            "producer": "" if only_reduces else config.producer.service,
            "reducer": config.reducer.service,
            "cache": str(cache),
        }
        preload = *PRELOAD, *config.producer.preload, *config.reducer.preload
        self.server = ForkServer(preload, warm=(SERVICE, arguments), name="lanes")
        self._lends = [self.server, *compilers]
        self._arguments = arguments
        self._entered = Enter(UNSTARTED, 0, config.case, (), (), {}, {})
        self.returned: deque[Order] = deque()
        self._returns: Counter[TestId] = Counter()
        self._faults = 0
        super().__init__(self._lane(number + 1) for number in range(config.workers))

    def _lane(self, number: int) -> LaneSlot:
        own = self._config.producer
        limits = Limits(
            own.seconds,
            own.memory_bytes,
            own.jobs,
            still_seconds=own.seconds,
            stages={RUN: MOST_SECONDS, REDUCE: MOST_SECONDS},
        )
        sandbox = Sandbox(
            SERVICE,
            self._arguments,
            limits,
            name=f"lane {number}",
            server=self.server,
            lends=self._lends,
        )
        return LaneSlot(sandbox, lambda told: self.tell(told))

    def call(self, job: Job[A]) -> Reply[A] | Trouble:
        """Has the first lane do a job, and waits for it; again if somebody else has killed it."""
        self.workers[0].epoch = OUTSIDE
        for _ in range(PATIENCE):
            event = self.workers[0].sandbox.call(job)
            if not (isinstance(event, Death) and event.from_outside):
                break
        return event

    def enter(
        self,
        number: int,
        epoch: int,
        case: CaseConfig,
        known: Sequence[str],
        ignored: Sequence[str],
        compilers: Mapping[str, Compiler],
        variables: Mapping[str, Sequence[int]],
    ) -> None:
        """Has tests be made and judged under these settings from now on; see Enter."""
        given = {name: tuple(own) for name, own in variables.items()}
        self._entered = Enter(number, epoch, case, (*known,), (*ignored,), compilers, given)

    def prepare(self, worker: LaneSlot) -> None:
        """Starts a lane, or has it enter the epoch."""
        if worker.epoch == self._entered.number:
            return
        worker.sandbox.rearm({**self._arguments, "entered": as_json(self._entered)})
        if worker.epoch != UNSTARTED:
            self.begin(worker, LaneOrder(self._entered))
        worker.epoch = self._entered.number

    def ended(self, worker: LaneSlot, order: LaneOrder, result: Ended) -> None:
        """Raises: PoolError."""
        if worker.told or isinstance(result, Reply):
            self._faults = 0
        if not isinstance(result, Reply):
            self._count(result, configuring=isinstance(order.job, Enter))
        if isinstance(order.job, ReduceFinding):
            self.reduced(order.job, result, time.monotonic() - worker.began)
        if not isinstance(order.job, RunTests) or isinstance(result, Reply):
            return
        first, *others = order.job.orders[worker.told :]
        self.returned.extendleft(reversed(others))
        again = Produce(first.test, first.died).after(result)
        killed = isinstance(result, Death) and result.from_outside
        if again:
            self.returned.appendleft(replace(first, died=again.died))
        elif killed and self._returns[first.test] < MOST_RETURNS:
            self._returns[first.test] += 1
            self.returned.appendleft(first)
        else:
            self.tell(Told(lost(first.test, result, self._entered.epoch)))

    def _count(self, event: Trouble, configuring: bool) -> None:
        self._faults += 1
        settings = isinstance(event, WorkerFault) and (event.starting or configuring)
        if settings or self._faults >= PATIENCE:
            raise PoolError(f"producers cannot work: {event_line(event)}")

    def close(self) -> None:
        super().close()
        self.server.close()
