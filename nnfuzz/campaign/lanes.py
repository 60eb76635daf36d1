"""The lanes of a campaign, as its own process sees them: each has a range of tests in hand."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.lane_jobs import (
    PATIENCE,
    REDUCE,
    RUN,
    WITHOUT_SERVER,
    Enter,
    LaneJob,
    LaneReport,
    Order,
    RunTests,
)
from nnfuzz.findings.reducer_service import ReduceFinding
from nnfuzz.records.config import CampaignConfig
from nnfuzz.sandbox.events import (
    Death,
    Limits,
    Reply,
    Trouble,
    WorkerFault,
    event_line,
)
from nnfuzz.sandbox.forkserver import ForkClient, ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Ended, Pool, Sandbox, Worker
from nnfuzz.store.evidence import lost
from nnfuzz.testcase.identity import TestId
from nnfuzz.testcase.jobs import Produce

A = TypeVar("A")
SERVICE = "nnfuzz.campaign.lane_service:LaneService"
PRELOAD = ("onnx.reference", "nnfuzz.campaign.lane_service")
UNSTARTED, OUTSIDE = -2, -1  # in place of an epoch: no process yet, or one without an epoch
MOST_SECONDS = 3600.0
"""Limit for running, judging and confirming one test, and for a reduction: their processes have
limits of their own.
"""
MOST_RETURNS = 3
"""How often a test is begun anew after its lane has lost a fork server, or after somebody outside
has killed the lane MOST_KILLS times (nnfuzz.sandbox.sandbox). After that the test itself is blamed.
"""


class PoolError(RuntimeError):
    """Lanes fail one after the other, so the campaign cannot go on. test: the test at which this
    was noticed, if it is not recorded yet.
    """

    def __init__(self, message: str, test: TestId | None = None) -> None:
        super().__init__(message)
        self.test = test


class LaneSlot(Worker[LaneJob]):
    """One lane.

    here: whether it is on this machine, where the folders of findings are. epoch: the number of the
    epoch that it has entered. entered: the settings of that epoch. done: how many tests of its
    range have ended. began: when its job was begun, by time.monotonic.
    """

    def __init__(
        self, sandbox: Sandbox, take: Callable[[LaneReport], None], here: bool = True
    ) -> None:
        """take: called with each report on tests."""
        super().__init__(sandbox)
        self._take, self.here = take, here
        self.epoch, self.done, self.began = UNSTARTED, 0, 0.0
        self.entered: Enter | None = None
        self._read = 0  # tests of its range that it has reported on

    def begin(self, order: LaneJob) -> None:
        self.done, self._read, self.began = 0, 0, time.monotonic()
        self.sandbox.submit(order, take=self._checked)

    def _checked(self, report: LaneReport) -> LaneReport:
        """The report. Raises: ValueError if it is on other tests than the next ones."""
        assert isinstance(self.order, RunTests)
        orders = self.order.orders[self._read : self._read + len(report.tests)]
        if [order.test for order in orders] != [evidence.test for evidence in report.tests]:
            raise ValueError("a report on other tests")
        self._read += len(orders)
        return report

    def progress(self, part: LaneReport) -> None:
        self.done += len(part.tests)
        self._take(part)

    def drop(self) -> None:
        """Ends its process, and with that the tests that it is at."""
        self.sandbox.close()
        self.order = None

    @property
    def left(self) -> tuple[Order, ...]:
        """The tests of its range that have not ended."""
        return self.order.orders[self.done :] if isinstance(self.order, RunTests) else ()


class Lanes(Pool[LaneSlot, LaneJob]):
    """Lanes that work under the settings of an epoch; a lane of an older epoch enters it first.

    take: called with each report on tests. reduced: called with the end of a reduction and its
    seconds. look: called while lanes work. returned: tests that have to be run again, since their
    lane has ended without a report, with the settings of their epoch, which a lane enters for them.
    arguments: of the processes of lanes.
    """

    tick = 0.5  # a look takes longer than the record of a test

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
        self.take: Callable[[LaneReport], None] = lambda report: None
        self.reduced: Callable[[ReduceFinding, Ended, float], None] = lambda *end: None
        self.look: Callable[[], None] = lambda: None
        self.arguments = {
            "config": as_json(config),
            "producer": "" if only_reduces else config.producer.service,
            "reducer": config.reducer.service,
            "cache": str(cache),
        }
        preload = *PRELOAD, *config.producer.preload, *config.reducer.preload
        self.server = ForkServer(preload, warm=(SERVICE, self.arguments))
        self._lends = [self.server, *compilers]
        self._entered = Enter(UNSTARTED, 0, config.case, (), {}, {})
        self.returned: deque[tuple[Order, Enter]] = deque()
        self._returns: Counter[TestId] = Counter()
        self._faults = 0
        super().__init__(self._lane() for _ in range(config.workers))

    def _lane(self) -> LaneSlot:
        own, stages = self._config.producer, {RUN: MOST_SECONDS, REDUCE: MOST_SECONDS}
        limits = Limits(own.seconds, own.memory_bytes, own.jobs, stages=stages)
        sandbox = Sandbox(SERVICE, self.arguments, limits, self.server, lends=self._lends)
        return self._slot(sandbox, here=True)

    def _slot(self, sandbox: Sandbox, here: bool) -> LaneSlot:
        return LaneSlot(sandbox, lambda report: self.take(report), here)

    def join(self, sandbox: Sandbox) -> None:
        """Adds a lane on another machine."""
        self.workers.append(self._slot(sandbox, here=False))

    def wait(self, timeout: float | None = None) -> None:
        super().wait(timeout)
        self.look()

    def call(self, job: Job[A]) -> Reply[A] | Trouble:
        """Has the first lane do a job, and waits for it; again if somebody else has killed it."""
        self.workers[0].epoch = OUTSIDE
        for _ in range(PATIENCE):
            event = self.workers[0].sandbox.call(job)
            if not (isinstance(event, Death) and event.from_outside):
                break
        return event

    def enter(self, epoch: Enter) -> None:
        """Has the next tests be made and judged under the settings of an epoch."""
        self._entered = epoch

    def prepare(self, worker: LaneSlot) -> None:
        """Starts a lane, or has it enter the epoch."""
        wanted = self.returned[0][1] if self.returned else self._entered
        if worker.epoch == wanted.number:
            return
        worker.sandbox.rearm({**self.arguments, "entered": as_json(wanted)})
        if worker.epoch != UNSTARTED:
            self.begin(worker, wanted)
        worker.epoch, worker.entered = wanted.number, wanted

    def ended(self, worker: LaneSlot, order: LaneJob, result: Ended) -> None:
        """Raises: PoolError."""
        if worker.done or isinstance(result, Reply):
            self._faults = 0
        if not isinstance(result, Reply):
            self._count(result, configuring=isinstance(order, Enter))
        if isinstance(order, ReduceFinding):
            self.reduced(order, result, time.monotonic() - worker.began)
        elif isinstance(order, RunTests) and not isinstance(result, Reply):
            self._lost(order.orders[worker.done :], result, worker.entered or self._entered)

    def _lost(self, left: Sequence[Order], event: Trouble, entered: Enter) -> None:
        """Has the tests that a lane has left undone be run again, one by one, since any of them may
        be to blame. One that was alone is.
        """
        first, *others = left
        again = Produce(first.test, first.died).after(event)
        if others:
            self.returned.extendleft((order, entered) for order in reversed(left))
        elif again:
            self.returned.appendleft((replace(first, died=again.died), entered))
        elif _blameless(event) and self._returns[first.test] < MOST_RETURNS:
            self._returns[first.test] += 1
            self.returned.appendleft((first, entered))
        else:
            self.take(LaneReport((lost(first.test, event, entered.epoch),)))

    def _count(self, event: Trouble, configuring: bool) -> None:
        self._faults += 1
        settings = isinstance(event, WorkerFault) and (event.starting or configuring)
        if settings or self._faults >= PATIENCE:
            raise PoolError(f"lanes cannot work: {event_line(event)}")

    def close(self) -> None:
        super().close()
        self.server.close()


def _blameless(event: Trouble) -> bool:
    """Whether a lane has ended for a reason outside of its test."""
    return isinstance(event, Death) and (event.from_outside or event.exit_code == WITHOUT_SERVER)
