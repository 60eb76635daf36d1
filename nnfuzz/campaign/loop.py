"""The campaign: one thread that keeps producers and compilers busy and records their results.

    next index -> producer -> test case -> every backend at its levels -> cheap comparison
        -> judge (a producer's job; when outputs differ, or the test is sampled)
        -> repetition in fresh workers -> finding folder -> one transaction
        -> reduction beside it
        -> at the first index of each epoch: the signatures that are refused and avoided from there
        on

The parent runs no compiler and no PyTorch; a process that dies costs one index.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nnfuzz.campaign.backend_pool import BackendPool
from nnfuzz.campaign.cpu import CpuMeter
from nnfuzz.campaign.epochs import Epochs
from nnfuzz.campaign.jobs import Indexes, JobSource
from nnfuzz.campaign.producer_pool import PoolError, ProducerOrder, ProducerPool
from nnfuzz.campaign.suspects import Suspects
from nnfuzz.campaign.under_way import UnderWay
from nnfuzz.feedback.probe import Prober, by_turns
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import CampaignSnapshot, Observer, counted
from nnfuzz.sandbox.events import Standstill
from nnfuzz.sandbox.sandbox import wait
from nnfuzz.store.recorder import Recorder
from nnfuzz.upkeep.reducing import Reducer

TICK_SECONDS, LEAST_TICK_SECONDS = 0.25, 0.01
SHOWN_SECONDS = 0.5  # between two looks at how far the campaign is, which cost more than a test
TRIM_SECONDS = 10.0  # between two times that free memory is given back
QUEUED_BYTES = 512 << 20  # of tests that are under way, with the outputs that are expected of them
STANDSTILLS = "standstills"
"""In the meta table: how often processes did not answer, by kind of process."""
SETTLE_SECONDS = 5.0  # after the time limit, for tests that await a verdict or a confirmation


@contextmanager
def _heap_frozen() -> Iterator[None]:
    """Exempts existing objects from garbage collection."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _trim() -> None:
    """Gives free memory back to the system, where the C library can: pieces between others that are
    in use are kept, and grow over days.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Loop:
    """One session of a campaign.

    stopped: called often; once true, open tests are dropped.
    """

    def __init__(
        self,
        config: CampaignConfig,
        recorder: Recorder,
        producers: ProducerPool,
        backends: list[BackendPool],
        prober: Prober,
        observer: Observer,
        reducer: Reducer,
        epochs: Epochs,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.config = config
        self.recorder = recorder
        self.producers = producers
        self.backends = backends
        self.prober = prober
        self.observer = observer
        self.reducer = reducer
        self.epochs = epochs
        self._stopped = stopped
        self._probing = False
        self._reduce_until: float | None = None
        """When the reductions after the last test end, by time.monotonic; None before."""
        self._suspects = Suspects(recorder, prober, waited_for=not config.timed)
        if config.timed:
            for pool in backends:
                pool.aside.known = self._suspects.known
        self._overtime = self._time_is_up() and bool(self._suspects.earlier)
        """Whether the session only decides runs that earlier sessions left undecided."""
        self.cpu = CpuMeter(producers, backends)
        self._tests = UnderWay(
            config, recorder, producers, backends, prober, self._suspects, self.cpu, observer.note
        )
        self._jobs = JobSource(
            config.seed,
            self._indexes(),
            prober,
            self._tests.produced,
            self._tests.few_probes,
        )
        self.standstills = Counter(recorder.store.meta(STANDSTILLS, {}))
        self._last_tick = self._last_trim = 0.0
        self._tests_before = recorder.figures.tests

    # -- running ------------------------------------------------------------------------------

    def run(self) -> None:
        """Fuzzes until a limit is reached or the user stops it. Raises: PoolError."""
        if self._suspects.earlier:
            count = counted(len(self._suspects.earlier), "suspected hang")
            self.observer.note(f"{count} of earlier sessions will be confirmed or cleared")
        with _heap_frozen():
            self.cpu.begin()
            self.recorder.store.sessions.restart_clock()
            try:
                self._fuzz()
            except PoolError as error:
                self._tests.blame_for_end(error.test, str(error), self.epochs.number)
                raise
            self._settle()
            self.recorder.complete = True
            self.recorder.store.sessions.stop_clock()
            self.cpu.end()
            self._reduce_rest()
            self.reducer.close()
            self.recorder.arrange()
            self._tick(final=True)

    def _fuzz(self) -> None:
        while not self._over():
            self.epochs.advance(self._jobs.next_index)
            self._jobs.end = self.epochs.end
            if self._held_up():
                for pool in self.backends:
                    pool.aside.suspect_all()
            self._step(self._next_job)

    def probe(self, seconds: float = math.inf) -> None:
        """Probes every signature, those with answers first and then by operators in turn, then the
        older versions of which these answers say nothing, and nothing else.

        seconds: after which no further signature is begun. Raises: PoolError.
        """
        self._probing = self._suspects.waited_for = True
        deadline = time.monotonic() + seconds
        self.prober.ask_known()
        self.prober.ask(by_turns(self.prober.newest))
        self._answer_probes(deadline)
        self.prober.ask_older()
        self._answer_probes(deadline)
        self.recorder.complete = True
        self._tick(final=True)

    def _answer_probes(self, deadline: float) -> None:
        while not self._stopped() and (not self.prober.idle or self._busy()):
            if time.monotonic() >= deadline:
                self.prober.forget_waiting()
            many = math.isinf(deadline) or self._tests.few_probes()
            self._step(self._jobs.probe if many else lambda: None)

    def seconds(self) -> float:
        """Wall seconds of the campaign with earlier sessions, each from its first test on."""
        return self.recorder.seconds()

    def cpu_ms(self) -> dict[str, float | dict[str, float]]:
        """Milliseconds of CPU time per test of this session, by kind of process."""
        tests = self.recorder.figures.tests - self._tests_before
        return self.cpu.per_test(tests, 0 if self._probing else self._tests.probes)

    def sut_share(self) -> float:
        """Seconds inside compilers / (wall seconds x workers), of this session."""
        workers = sum(len(pool.workers) for pool in self.backends)
        sessions = self.recorder.store.sessions
        return sum(sessions.sut_seconds().values()) / (sessions.seconds() * workers)

    def _indexes(self) -> Indexes:
        store, part, suspected = self.recorder.store, self.config.part, self._suspects.indexes
        if self._overtime:
            limit = max(suspected, default=-1) + 1
            return Indexes(limit, lambda index: index < limit and index not in suspected, part)
        again = {index for index in suspected if not store.tests.count(index, index + 1)}
        recorded = self.recorder.recorded
        ran = lambda index: index in recorded and index not in again  # noqa: E731
        return Indexes(self.config.tests_limit, ran, part)

    def _next_job(self) -> ProducerOrder | None:
        """Suspects of earlier sessions first: they take long, and are in nobody's way."""
        probe = self._suspects.next_probe()
        if probe is not None:
            return self._jobs.job(probe)
        return self._jobs.test()

    def _settle(self) -> None:
        """Gives verdicts and confirmations a few more seconds, unless the user is waiting. A run
        that looks like a hang is left to another session.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        for pool in self.backends:
            pool.queue.clear()
        while not self._stopped() and time.monotonic() < deadline:
            settling = any(run.settling for run in self._tests.unsuspected)
            if not settling and not any(pool.aside.undecided() for pool in self.backends):
                break
            self._step(lambda: None)
        for pool in self.backends:
            pool.give_up()

    def _reduce_rest(self) -> None:
        """Reduces findings that could not be reduced on the way, for a time that is announced."""
        waiting = self.recorder.open()
        left = self.reducer.waiting() or self.reducer.owed()
        if not left or self._stopped():
            return
        workers, begun = os.cpu_count() or 1, time.monotonic()
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
        self._reduce_until = begun + grace

        def over() -> bool:
            self._reduce_until = max(self._reduce_until or 0.0, begun + granted())
            return self._stopped() or not self._reducing_left()

        self.reducer.finish(workers, self._wait, over)
        if left := self.recorder.open():
            minutes = math.ceil(self.reducer.missing(workers) / 60)
            self.observer.note(
                f"{counted(left, 'finding')} not reduced, for want of about "
                f"{counted(minutes, 'minute')}; nnfuzz reduce goes on"
            )

    def _step(self, next_job: Callable[[], ProducerOrder | None]) -> None:
        """next_job: of an idle producer; asked while the compilers do not have enough to do."""
        self.producers.dispatch(lambda: next_job() if self._hungry() else None)
        for pool in self.backends:
            pool.dispatch()
        if not self._probing:
            self.reducer.start_next(self.reducer.share() * self.seconds())
        self._wait()

    def _wait(self) -> None:
        due = max(LEAST_TICK_SECONDS, min(pool.due for pool in self.backends))
        sandboxes = self._sandboxes()
        if not any(sandbox.busy for sandbox in sandboxes):
            time.sleep(LEAST_TICK_SECONDS)  # other parts of the campaign are waited for
        events = wait(sandboxes, min(TICK_SECONDS, due))
        for sandbox in sandboxes:
            for standstill in sandbox.take_standstills():
                self._note_standstill(standstill)
        for sandbox, event in events:
            if not self.producers.feed(sandbox, event) and not self.reducer.feed(sandbox, event):
                any(pool.feed(sandbox, event) for pool in self.backends)
        if time.monotonic() - self._last_tick > SHOWN_SECONDS:
            self._tick()
        if time.monotonic() - self._last_trim > TRIM_SECONDS:
            self._last_trim = time.monotonic()
            _trim()

    def _note_standstill(self, standstill: Standstill) -> None:
        """Reports that a process did not answer, and counts it."""
        self.observer.note(str(standstill))
        self.standstills[standstill.who] += 1
        self.recorder.store.set_meta(STANDSTILLS, self.standstills)

    def _sandboxes(self) -> list[Any]:
        pools: list[Any] = [self.producers, *self.backends, self.reducer]
        return [sandbox for pool in pools for sandbox in pool.sandboxes()]

    def _busy(self) -> bool:
        return self.producers.busy or any(pool.busy for pool in self.backends)

    def _held_up(self) -> bool:
        """Whether nothing but runs that take long keeps the next epoch from its beginning, in a
        campaign that does not wait for these: the machine would be idle.
        """
        if self._suspects.waited_for or not self._jobs.waits:
            return False
        return not (self.producers.busy or any(pool.at_work for pool in self.backends))

    def _over(self) -> bool:
        if self._stopped() or (self._time_is_up() and not self._overtime):
            return True
        return not (self._jobs.left or self._busy())

    def _time_is_up(self) -> bool:
        limit = self.config.time_limit
        return limit is not None and self.seconds() >= limit

    def _hungry(self) -> bool:
        """Whether the busiest backend's queue is short: memory stays small, compilers busy."""
        workers, least = self.config.workers, 2 * len(self.producers.workers)
        rooms = {pool: least + workers * (6 + pool.ahead) for pool in self.backends}
        if any(len(pool.queue) >= room for pool, room in rooms.items()):
            return False
        runs = self._tests.unsuspected
        queued = sum(run.bytes for run in runs)
        return len(runs) < 8 * max(rooms.values()) and queued < QUEUED_BYTES

    # -- watching -----------------------------------------------------------------------------

    def _tick(self, final: bool = False) -> None:
        self._last_tick = time.monotonic()
        if warning := self._suspects.most(self.recorder.figures.tests - self._tests_before):
            self.observer.note(warning)
        self.observer.update(self.snapshot("done" if final else None))

    def snapshot(self, phase: str | None = None) -> CampaignSnapshot:
        figures = self.recorder.figures
        seconds = self.seconds()
        session = max(1e-9, self.recorder.store.sessions.seconds())
        rate = (figures.tests - self._tests_before) / session
        return CampaignSnapshot(
            phase=phase or self._phase(),
            seconds=seconds,
            left=self._time_left(seconds, rate),
            indexes=figures.indexes,
            tests=figures.tests,
            rate=rate,
            outcomes=dict(figures.outcomes),
            findings=len(self.recorder.findings()),
            occurrences=self.recorder.buckets.get("finding", 0),
            faults=self._tests.faults,
            refused=len(self.epochs.refused),
            sut_share=self.sut_share(),
            tests_limit=self._own_limit,
            decided=self.prober.decided(),
            signatures=len(self.prober.keys) if self.config.learn else 0,
            flaky=self.recorder.buckets.get("flaky", 0),
            unreduced=self.recorder.open() if self.config.reduce else 0,
            avoided=len(self.epochs.avoided),
            waiting=tuple(str(w) for pool in self.backends for w in pool.aside.waiting()),
            suspects=len(self.recorder.unconfirmed),
            standstills=self.standstills.total(),
        )

    def _phase(self) -> str:
        if self._reduce_until is not None:
            return "reducing"
        return "probing" if self._probing else "fuzzing"

    @property
    def _own_limit(self) -> int | None:
        """How many indexes this part of the campaign has; None for no end."""
        limit = self.config.tests_limit
        return None if limit is None else self.config.part.of(limit)

    def _reducing_left(self) -> float:
        """Seconds until the reductions after the last test end."""
        return max(0.0, (self._reduce_until or 0.0) - time.monotonic())

    def _time_left(self, seconds: float, rate: float) -> float | None:
        if self._reduce_until is not None:
            return self._reducing_left()
        ends = []
        if self.config.time_limit is not None:
            ends.append(self.config.time_limit - seconds)
        if self._own_limit is not None and rate:
            ends.append((self._own_limit - self.recorder.figures.indexes) / rate)
        return max(0.0, min(ends)) if ends else None
