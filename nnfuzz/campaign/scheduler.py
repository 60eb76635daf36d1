"""The scheduler: hands ranges of tests to lanes, and records their reports.

    epoch -> range of tests -> lane -> reports of rows or evidence -> SQLite
        -> at the first index of each epoch: the operators and edges to avoid from there on
        -> reductions beside it

This process runs no compiler and no PyTorch; a lane that dies costs one test.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from nnfuzz.base.text import one_line
from nnfuzz.campaign.epochs import Epochs, Indexes
from nnfuzz.campaign.hangs import Decision, SuspectedHangs
from nnfuzz.campaign.lane_jobs import PATIENCE, LaneJob, LaneReport, Order, RunTests
from nnfuzz.campaign.lanes import Lanes, LaneSlot, PoolError
from nnfuzz.campaign.reducing import Reducer
from nnfuzz.experiment.result import FAULT
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import CampaignSnapshot, Observer, counted
from nnfuzz.records.rows import EventRow, HangRow
from nnfuzz.store.database import DAMAGE, StoreError
from nnfuzz.store.evidence import Evidence, defect, fault
from nnfuzz.store.recorder import Recorder
from nnfuzz.testcase.identity import Numbered

TICK_SECONDS, LEAST_TICK_SECONDS = 0.5, 0.01
SHOWN_SECONDS = 0.5  # between two looks at how far the campaign is, which cost more than a test
RANGE_SECONDS, MOST_AT_ONCE = 1.0, 32
"""How long a range of tests should take, and how many tests it may have."""
MOST_ANNOUNCED = 5
"""How many different faults a session prints at most. The table `events` holds all of them."""


class Scheduler:
    """One session of a campaign. faults: of nnfuzz or of an adapter.

    stopped: called often; once true, open tests are dropped.
    """

    def __init__(
        self,
        config: CampaignConfig,
        recorder: Recorder,
        lanes: Lanes,
        observer: Observer,
        reducer: Reducer,
        epochs: Epochs,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.config, self.recorder, self.lanes = config, recorder, lanes
        self.observer, self.reducer, self.epochs = observer, reducer, epochs
        self.faults = self._faults_in_a_row = 0
        self._cpu = Counter[str]()
        """CPU seconds of this session's tests by kind of process, until the last one has ended."""
        self._began, self._ended = time.process_time(), 0.0
        self._stopped = stopped
        self._hangs = SuspectedHangs(recorder)
        done = recorder.recorded.__contains__
        self._indexes = Indexes(config.tests_limit, done, config.part)
        self._announced: set[str] = set()
        self._inside: defaultdict[str, float] = defaultdict(float)
        """Seconds inside of compilers in this session, by backend."""
        self._usual = RANGE_SECONDS  # seconds of the latest tests
        self._last_tick = 0.0
        self._tests_before = recorder.figures.tests
        self._over_at: float | None = None
        """When the reductions after the last test end, by time.monotonic; None before."""
        lanes.take, lanes.reduced = self.take, reducer.ended
        recorder.store.sessions.account(config.workers, lambda: dict(self._inside))

    # -- running ------------------------------------------------------------------------------

    def run(self) -> None:
        """Fuzzes until a limit is reached or the user stops it. Raises: PoolError."""
        self._began = time.process_time()
        self.recorder.store.sessions.restart_clock()
        try:
            while not self._over():
                self.epochs.advance(self._indexes.next if self._indexes.left else math.inf)
                self._step(self._next_range)
        except PoolError as error:
            self._blame_for_end(error)
            raise
        for lane in self.lanes.workers:
            if lane.left:
                lane.drop()
        self.lanes.returned.clear()
        self._confirm_hangs()
        self.recorder.complete = True
        self.recorder.store.sessions.stop_clock()
        self._ended = time.process_time()
        self._reduce_rest()
        self.reducer.drop()
        self.recorder.arrange()
        self._tick(final=True)

    def _step(self, next_range: Callable[[], list[Order]]) -> None:
        """Hands work to idle lanes, and takes their reports."""

        def more(lane: LaneSlot) -> LaneJob | None:
            allowed = self.reducer.share() * self.seconds()
            if lane.here and (reduction := self.reducer.next(allowed)):
                return reduction
            orders = next_range()
            return RunTests(tuple(orders)) if orders else None

        self.lanes.dispatch(more)
        self._wait()

    def _wait(self) -> None:
        if not any(lane.sandbox.busy for lane in self.lanes.workers):
            time.sleep(LEAST_TICK_SECONDS)
        self.lanes.wait(TICK_SECONDS)
        if time.monotonic() - self._last_tick > SHOWN_SECONDS:
            self._tick()

    @property
    def _busy(self) -> bool:
        return bool(self.lanes.returned) or any(lane.left for lane in self.lanes.workers)

    def _over(self) -> bool:
        if self._stopped() or self._time_is_up():
            return True
        return not (self._indexes.left or self._busy)

    def _time_is_up(self) -> bool:
        limit = self.config.time_limit
        return limit is not None and self.seconds() >= limit

    # -- the next work ------------------------------------------------------------------------

    def _next_range(self) -> list[Order]:
        """Orders for an idle lane."""
        return self._returned() or self._tests()

    def _returned(self) -> list[Order]:
        return [self.lanes.returned.popleft()[0]] if self.lanes.returned else []

    def _tests(self) -> list[Order]:
        """The next tests of the present epoch, no more than a fair share of them."""
        orders: list[Order] = []
        left = self.epochs.end - self._indexes.next
        most = min(self._at_once, max(1, left // (2 * len(self.lanes.workers))))
        while self._indexes.left and self._indexes.next < self.epochs.end and len(orders) < most:
            orders.append(Order(Numbered(self.config.seed, self._indexes.take())))
        return orders

    def _suspected(self) -> list[Order]:
        """One that gets the whole time limit."""
        row = self._hangs.next()
        return [Order(row.test, patient=True)] if row else []

    @property
    def _at_once(self) -> int:
        return max(1, min(MOST_AT_ONCE, int(RANGE_SECONDS / self._usual)))

    # -- reports ------------------------------------------------------------------------------

    def take(self, report: LaneReport) -> None:
        """Records a report of a lane, and learns from it. Raises: PoolError."""
        for name, seconds in report.compilers.items():
            self._inside[name] += seconds
        if not self._ended:
            self._cpu.update(report.cpu)
        spent = sum(report.compilers.values()) + report.cpu.get("lanes", 0.0)
        self._usual += (max(spent / len(report.tests), 1e-3) - self._usual) / 8
        for evidence in report.tests:
            self._take(evidence)
        if report.beyond_help:
            raise PoolError(report.beyond_help, report.tests[-1].test)

    def _take(self, evidence: Evidence) -> None:
        test = evidence.test
        if evidence.suspected:
            self._suspect(replace(evidence.suspected, test=test), evidence)
        else:
            self._keep(evidence, self._hangs.decided(evidence))
        self._faults_in_a_row = self._faults_in_a_row + 1 if evidence.status == FAULT else 0
        if self._faults_in_a_row >= PATIENCE:
            raise PoolError(f"tests cannot be made: {evidence.events[-1].message}", test)

    def _suspect(self, row: HangRow, evidence: Evidence) -> None:
        self._keep(evidence)  # it counts as a hang until it is decided
        self._hangs.add(row)

    def _keep(self, evidence: Evidence, hangs: Sequence[Decision] = ()) -> None:
        for event in evidence.events:
            if event.kind == FAULT:
                self.faults += 1
                self._announce(event)
        try:
            self.recorder.record(evidence, hangs)
        except (OSError, StoreError, *DAMAGE):
            raise
        except Exception as error:  # a finding that nnfuzz cannot write costs its test alone
            if evidence.status == FAULT:
                raise
            self._keep(defect(evidence.test, evidence.epoch, "record", error))

    def _announce(self, event: EventRow) -> None:
        """Prints a fault. The same fault is printed once, and only the first few are."""
        line = one_line(event.message.partition("\n")[0])
        if line not in self._announced and len(self._announced) < MOST_ANNOUNCED:
            self._announced.add(line)
            whose = "" if line.startswith("adapter of") else "fault of nnfuzz: "
            self.observer.note(f"{event.test}: {whose}{line}")

    def _blame_for_end(self, error: PoolError) -> None:
        """Records that the session ended at a test, so that later sessions do not all end there."""
        test, recorded = error.test, self.recorder.recorded
        if isinstance(test, Numbered) and test.index not in recorded:
            self._keep(fault(test, self.epochs.number, "run", str(error)))

    # -- the end ------------------------------------------------------------------------------

    def _confirm_hangs(self) -> None:
        """Runs suspected hangs with the whole time limit, one test of each pattern."""
        if not (patterns := self._hangs.patterns()) or self._stopped():
            return
        self.observer.note(
            f"the campaign is over; confirming {counted(patterns, 'suspected hang')} with the "
            "whole time limit (Ctrl-C ends it, --resume goes on with it)"
        )
        while not self._stopped() and (self._busy or len(self._hangs)):
            self._step(lambda: self._returned() or self._suspected())

    def _reduce_rest(self) -> None:
        """Reduces findings that could not be reduced on the way, for a time that is announced."""
        waiting = self.recorder.open()
        if not self.reducer.left or self._stopped():
            return
        workers, begun = len(self.lanes.workers), time.monotonic()
        least = max(self.config.reducer.grace, self.reducer.share() * self.seconds())
        before = len(self.recorder.reductions)

        def granted() -> float:
            """Seconds in all: the remaining findings may have more causes than it seemed."""
            count = len(self.recorder.reductions) - before + self.recorder.open()
            return max(least, count * self.config.reducer.seconds / workers)

        grace = granted()
        self.observer.note(
            f"the campaign is over; reducing {counted(max(1, waiting), 'finding')}, "
            f"at most {grace:.0f} s "
            "(Ctrl-C ends it, nnfuzz reduce CAMPAIGN goes on with it)"
        )
        self._over_at = begun + grace

        while self.reducer.left and not self._stopped() and time.monotonic() < self._over_at:
            self.lanes.dispatch(lambda lane: self.reducer.next(math.inf) if lane.here else None)
            self._wait()
            self._over_at = max(self._over_at, begun + granted())
        if left := self.recorder.open():
            self.observer.note(f"{counted(left, 'finding')} not reduced; nnfuzz reduce goes on")

    # -- figures ------------------------------------------------------------------------------

    def seconds(self) -> float:
        """Wall seconds of the campaign with earlier sessions, each from its first test on."""
        return self.recorder.seconds()

    def cpu_ms(self) -> dict[str, float]:
        """Milliseconds of CPU time per test of this session: `compilers` inside of their stages,
        `own` everything else, and the parts of that: this process (`parent`), `lanes`, and the work
        of compilers' processes before and behind the stages (`workers`). The questions before the
        first test and the reductions after the last one are left out.
        """
        tests = self.recorder.figures.tests - self._tests_before
        parent = (self._ended or time.process_time()) - self._began
        spent = {"parent": parent, "lanes": 0.0, "workers": 0.0, **self._cpu}
        compilers = spent.pop("compilers", 0.0)
        shares = {"own": sum(spent.values()), "compilers": compilers, **spent}
        return {
            name: round(1e3 * seconds / tests, 3) if tests else 0.0
            for name, seconds in shares.items()
        }

    def sut_share(self) -> float:
        """Seconds inside compilers / (wall seconds x lanes), of this session."""
        sessions = self.recorder.store.sessions
        seconds = max(1e-9, sessions.seconds()) * len(self.lanes.workers)
        return sum(sessions.sut_seconds().values()) / seconds

    def _tick(self, final: bool = False) -> None:
        self._last_tick = time.monotonic()
        self.recorder.store.flush()
        self.observer.update(self.snapshot("done" if final else None))

    def snapshot(self, phase: str | None = None) -> CampaignSnapshot:
        """The state of the campaign, for people."""
        figures, seconds = self.recorder.figures, self.seconds()
        session = max(1e-9, self.recorder.store.sessions.seconds())
        rate = (figures.tests - self._tests_before) / session
        buckets = self.recorder.store.occurrences.buckets()
        return CampaignSnapshot(
            phase=phase or self._phase(),
            seconds=seconds,
            left=self._time_left(seconds, rate),
            tests=figures.tests,
            rate=rate,
            outcomes=dict(figures.outcomes),
            findings=len(self.recorder.findings()),
            occurrences=buckets.get("finding", 0),
            faults=self.faults,
            sut_share=self.sut_share(),
            flaky=buckets.get("flaky", 0),
            unreduced=self.recorder.open() if self.config.reduce else 0,
            suspects=len(self._hangs),
        )

    def _phase(self) -> str:
        return "fuzzing" if self._over_at is None else "reducing"

    @property
    def _own_limit(self) -> int | None:
        """How many indexes this part of the campaign has; None for no end."""
        limit = self.config.tests_limit
        return None if limit is None else self.config.part.of(limit)

    def _time_left(self, seconds: float, rate: float) -> float | None:
        if self._over_at is not None:
            return max(0.0, self._over_at - time.monotonic())
        ends = []
        if self.config.time_limit is not None:
            ends.append(self.config.time_limit - seconds)
        if self._own_limit is not None and rate:
            ends.append((self._own_limit - self.recorder.figures.indexes) / rate)
        return max(0.0, min(ends)) if ends else None
