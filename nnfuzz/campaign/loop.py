"""The campaign: one thread that keeps producers and compilers busy and records what they say.

    next index -> producer -> test case -> every backend at its levels -> cheap comparison
        -> judge (a producer's job; when outputs differ, or the test is sampled)
        -> repetition in fresh workers -> finding folder -> one transaction
        -> reduction beside it -> what fails again and again is avoided from the next epoch on

The parent runs no compiler and no PyTorch; whatever dies costs one index.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from nnfuzz.campaign.config import CampaignConfig
from nnfuzz.campaign.flight import FAULT, TEST, Flight
from nnfuzz.campaign.pools import BackendPool, Job, ProducerPool, describe
from nnfuzz.campaign.probe import Probe, Prober
from nnfuzz.campaign.recorder import Evidence, Recorder
from nnfuzz.campaign.reducing import Reducer
from nnfuzz.campaign.rows import EventRow, FindingRow
from nnfuzz.campaign.taming import Tamer
from nnfuzz.execute.events import Death, Fault, Reply
from nnfuzz.execute.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.execute.sandbox import wait
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.triage.signature import export_failure

TICK_SECONDS = 0.25
PROBE_SECONDS_PER_TEST = 0.05  # a short campaign gets few probes in advance
SETTLE_SECONDS = 5.0  # after the time limit, for tests that await a verdict or a confirmation
TELLING = 1.2  # growth of the refused signatures that is worth another line
EPOCH_SECONDS = 2.0  # least time between two epochs: each interrupts the producers
EPOCH_SHARE = 0.05  # and the least share of the time so far


@dataclass(frozen=True)
class Snapshot:
    """The state of a running campaign, for people.

    left: seconds until the limit, if known. decided: signatures known to be supported or refused.
    flaky: failures that did not repeat. unreduced: findings. avoided: see nnfuzz.campaign.taming.
    """

    phase: str
    seconds: float
    left: float | None
    indexes: int
    tests: int
    rate: float
    outcomes: Mapping[str, int]
    findings: int
    occurrences: int
    faults: int
    refused: int
    sut_share: float
    tests_limit: int | None = None
    decided: int = 0
    signatures: int = 0
    flaky: int = 0
    unreduced: int = 0
    avoided: int = 0


class Observer(Protocol):
    """Who watches: the terminal, or nobody."""

    def update(self, snapshot: Snapshot) -> None: ...
    def finding(self, row: FindingRow) -> None: ...
    def note(self, text: str) -> None: ...


class Loop:
    """One session of a campaign.

    epoch, refused: where it begins. stopped: asked often; once true, what is open is dropped.
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
        tamer: Tamer,
        epoch: int,
        refused: Iterable[str] = (),
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.config = config
        self.recorder = recorder
        self.producers = producers
        self.backends = backends
        self.prober = prober
        self.observer = observer
        self.reducer = reducer
        self.tamer = tamer
        self.epoch = epoch
        self.faults = 0
        self._earlier = recorder.store.seconds_before()
        self._stopped = stopped
        self._probing = False
        self._thorough = False
        self._reducing = False
        self._restrains = replace(config.case, avoid=("anything",)).restrains
        self._turn = False
        self._asked = 0
        self._flights: set[Flight] = set()
        self._done = recorder.store.done()
        self._indexes = self._remaining(self._done)
        self._refused = set(refused)
        self._told = len(self._refused)
        self._epoch_at = 0.0
        self._last_tick = 0.0
        self._tests_before = recorder.figures.tests

    # -- running ------------------------------------------------------------------------------

    def run(self) -> None:
        """Fuzzes until a limit is reached or the user stops it. Raises: PoolError."""
        if self._refused:
            self.observer.note(
                f"{len(self._refused)} operator signatures are left out: not supported, as earlier "
                "probes and campaigns have shown"
            )
        self._probe_first()
        while not self._over():
            self._step(self._supply)
        self._settle()
        self.recorder.store.stop_clock()
        self._reduce_rest()
        self._tick(final=True)

    def probe(self, keys: Iterable[str]) -> None:
        """Probes the signatures at every level, and nothing else. Raises: PoolError."""
        self._probing = self._thorough = True
        self.prober.ask(keys)
        while not self._stopped() and (len(self.prober) or self._busy()):
            self._step(self._probe_job)
        self._tick(final=True)

    def seconds(self) -> float:
        """Wall seconds of the campaign, start-up and earlier sessions included."""
        return self._earlier + self.recorder.store.session_seconds()

    def sut_share(self) -> float:
        """Seconds inside compilers / (wall seconds x workers), of this session."""
        lanes = sum(len(pool.lanes) for pool in self.backends)
        wall = self.recorder.store.session_seconds()
        return sum(pool.seconds for pool in self.backends) / (wall * lanes)

    def _probe_first(self) -> None:
        """Probes until the budget is spent; the rest is learnt by and by."""
        if self._probe_budget() <= 0:
            return
        self.prober.ask_all()
        deadline = time.monotonic() + self._probe_budget()
        self._probing = True
        while time.monotonic() < deadline and not self._over():
            if not len(self.prober) and not self._busy():
                break
            self._step(self._probe_job)
        self.prober.forget_waiting()
        self._probing = False
        self._renew_epoch(now=True)

    def _probe_budget(self) -> float:
        config = self.config
        shares = [config.probe_seconds]
        shares += [config.time_limit / 10] if config.time_limit else []
        shares += [config.tests_limit * PROBE_SECONDS_PER_TEST] if config.tests_limit else []
        return min(shares)

    def _settle(self) -> None:
        """Gives verdicts and confirmations a few more seconds, unless the user is waiting."""
        deadline = time.monotonic() + SETTLE_SECONDS
        for pool in self.backends:
            pool.queue.clear()
        while not self._stopped() and time.monotonic() < deadline:
            if not any(flight.settling for flight in self._flights):
                return
            self._step(lambda: None)

    def _reduce_rest(self) -> None:
        """Reduces what could not be reduced on the way, for a time that is announced."""
        waiting = self.reducer.waiting()
        if not waiting or self._stopped():
            return
        settings = self.config.reducer
        grace = max(settings.grace, settings.share * self.seconds())
        self.observer.note(
            f"the campaign is over; reducing {waiting} findings, at most {grace:.0f} s "
            "(Ctrl-C ends it, nnfuzz reduce CAMPAIGN goes on with it)"
        )
        self._reducing = True
        deadline = time.monotonic() + grace
        while not self._stopped() and time.monotonic() < deadline and self.reducer.waiting():
            self.reducer.dispatch(math.inf, os.cpu_count() or 1)
            self._wait()
        left = self.reducer.waiting()
        if left:
            folder = self.recorder.store.folder
            self.observer.note(f"{left} findings are not reduced: nnfuzz reduce {folder}")

    def _step(self, supply: Any) -> None:
        self.producers.dispatch(supply)
        for pool in self.backends:
            pool.dispatch()
        if not self._probing:
            self.reducer.dispatch(self.config.reducer.share * self.seconds())
        self._wait()

    def _wait(self) -> None:
        for sandbox, event in wait(self._sandboxes(), TICK_SECONDS):
            if not self.producers.feed(sandbox, event) and not self.reducer.feed(sandbox, event):
                any(pool.feed(sandbox, event) for pool in self.backends)
        if time.monotonic() - self._last_tick > TICK_SECONDS:
            self._tick()

    def _sandboxes(self) -> list[Any]:
        pools = [self.producers, *self.backends, self.reducer]
        return [sandbox for pool in pools for sandbox in pool.sandboxes()]

    def _busy(self) -> bool:
        return self.producers.busy or any(pool.busy for pool in self.backends)

    def _over(self) -> bool:
        if self._stopped():
            return True
        limit = self.config.time_limit
        if limit is not None and self.seconds() >= limit:
            return True
        return not self._probing and not self._left() and not self._busy()

    # -- supply -------------------------------------------------------------------------------

    def _remaining(self, done: set[int]) -> Iterator[int]:
        limit = self.config.tests_limit
        index = 0
        while limit is None or index < limit:
            if index not in done:
                yield index
            index += 1

    def _left(self) -> bool:
        limit = self.config.tests_limit
        return limit is None or len(self._done) + self._asked < limit

    def _supply(self) -> Job | None:
        """The next job of an idle producer; None while the compilers have enough to do."""
        if not self._hungry():
            return None
        self._turn = not self._turn
        if self._turn and len(self.prober):
            return self._probe_job()
        index = next(self._indexes, None)
        if index is None:
            return None
        self._asked += 1
        header = {"do": "produce", "index": index}
        return Job(header, partial(self._produced, header, None))

    def _probe_job(self) -> Job | None:
        if not self._hungry():
            return None
        probe = self.prober.next()
        if probe is None:
            return None
        header = probe.job()
        return Job(header, partial(self._produced, header, probe))

    def _hungry(self) -> bool:
        """Whether the busiest backend's queue is short: memory stays small, compilers busy."""
        depth = max(len(pool.queue) for pool in self.backends)
        room = 6 * self.config.workers + 2 * len(self.producers.lanes)
        return depth < room and len(self._flights) < 8 * room

    def _produced(
        self,
        header: dict[str, Any],
        probe: Probe | None,
        event: Reply | Fault | Death,
        epoch: int,
        seconds: float,
    ) -> None:
        index = header.get("index", -1)
        if not isinstance(event, Reply):
            self._lost(header, probe, event, epoch)
        elif "failed" in event.header:
            self._failed(header, probe, NotProduced(**event.header["failed"]), epoch)
        else:
            case = TestCase.from_frame(event.header["case"], event.blobs)
            pools = self._pools_of(probe)
            sampled = probe is None and self.config.sampled(index)
            self._flights.add(Flight(self, case, pools, epoch, probe, sampled))

    def _pools_of(self, probe: Probe | None) -> list[tuple[BackendPool, tuple[str, ...]]]:
        if probe is None:
            return [(pool, pool.levels) for pool in self.backends]
        names = self.prober.backends(probe) or [self.backends[0].name]
        count = None if self._thorough else 1
        return [(pool, pool.levels[:count]) for pool in self.backends if pool.name in names]

    # -- what comes back ----------------------------------------------------------------------

    def judge(self, job: Job) -> None:
        """For flights: hands a verdict's job to the next free producer."""
        self.producers.urgent.append(job)

    def knows(self, signature: str) -> bool:
        return self.recorder.knows(signature)

    def landed(self, flight: Flight, evidence: Evidence) -> None:
        """For flights: keeps the evidence and learns from it."""
        self._flights.discard(flight)
        self.faults += sum(event.kind == FAULT for event in evidence.events)
        self.recorder.record(evidence)
        if flight.sampled and flight.agreed:
            figures = self.recorder.figures
            figures.full_checks += 1
            figures.full_check_finds += any(
                failure.kind is OutcomeKind.MISMATCH for failure in evidence.confirmed
            )
        if flight.probe:
            self.prober.finished(flight.probe, flight.outcomes)
        elif self.config.learn:
            self.prober.learn(flight.case, flight.outcomes)
        self._watch(flight, evidence)
        self._renew_epoch()

    def _lost(
        self, header: dict[str, Any], probe: Probe | None, event: Fault | Death, epoch: int
    ) -> None:
        """A producer failed or died: a fault of nnfuzz, never an outcome."""
        stage = event.stage if isinstance(event, Death) else str(header["do"])
        signal = event.signal if isinstance(event, Death) else ""
        details = event.traceback if isinstance(event, Fault) else event.captured
        row = EventRow(
            header.get("index", -1), FAULT, "", stage or "start", signal, describe(event), details
        )
        self._keep(header, probe, epoch, status=FAULT, events=(row,))

    def _failed(
        self, header: dict[str, Any], probe: Probe | None, failed: NotProduced, epoch: int
    ) -> None:
        if probe:
            self.prober.not_produced(probe, failed)
        elif self.config.learn:
            self.prober.learn_export(failed)
        fields: dict[str, Any] = {"status": failed.stage, "failed": failed}
        if failed.stage == "export":
            if not failed.unsupported:
                found = failed.error_type, failed.message, failed.traceback
                fields["confirmed"] = (export_failure(failed.street, *found),)
            fields["outcomes"] = (_export_outcome(failed),)
        elif failed.stage == FAULT:
            row = EventRow(failed.index, FAULT, "", "produce", "", failed.message, failed.traceback)
            fields["events"] = (row,)
        self._keep(header, probe, epoch, seconds=failed.seconds, **fields)

    def _keep(self, header: dict[str, Any], probe: Probe | None, epoch: int, **fields: Any) -> None:
        evidence = Evidence(
            header.get("index", -1), str(probe or TEST), epoch, job=header, **fields
        )
        self.faults += sum(event.kind == FAULT for event in evidence.events)
        self.recorder.record(evidence)
        self._renew_epoch()

    def _watch(self, flight: Flight, evidence: Evidence) -> None:
        """Has the tamer look at tests that were made without restraint though there was some."""
        case = flight.case
        current = evidence.epoch == self.epoch
        if current and not flight.probe and not self._restrains(case.seed, case.index):
            shown = (failure.signature.hash for failure in evidence.confirmed)
            self.tamer.watch(case.graph, shown)

    # -- epochs -------------------------------------------------------------------------------

    def _renew_epoch(self, now: bool = False) -> None:
        """Starts a new epoch if what is to be generated has changed, at most every few seconds."""
        if self._probing:
            return
        age = time.monotonic() - self._epoch_at
        if not now and age < max(EPOCH_SECONDS, EPOCH_SHARE * self.seconds()):
            return
        self._epoch_at = time.monotonic()
        reasons = self._new_refusals()
        if not self._tamed() and not reasons:
            return
        avoided = self.tamer.avoided
        self._refused |= reasons.keys()
        self.epoch = self.recorder.store.add_epoch(self._refused, reasons, avoided)
        case = replace(
            self.config.case,
            refused=tuple(sorted(self._refused)),
            avoid=tuple(row.item for row in avoided),
        )
        self.producers.configure(self.epoch, case)

    def _new_refusals(self) -> dict[str, str]:
        """Signatures that turned out not to be supported, with the reasons."""
        reasons = self.prober.refused()
        refused = set(self.config.case.refused) | set(reasons)
        avoided = {row.item for row in self.tamer.avoided}
        new = refused - self._refused
        if not new or not self.prober.left(refused) - avoided:
            return {}
        if len(self._refused | new) > TELLING * self._told:
            self._told = len(self._refused | new)
            self.observer.note(
                f"{self._told} of {len(self.prober.keys)} operator signatures are refused for "
                f"generation by now, since they are not supported: {_some(new)}"
            )
        return {key: reasons.get(key, "") for key in sorted(new)}

    def _tamed(self) -> bool:
        """Whether the list of what generation keeps away from has changed; says so."""
        gone = self.prober.left(()) - self.prober.left(self._refused)
        new = self.tamer.learn(self.recorder.findings(), self.recorder.reductions, gone)
        for row in new:
            self.observer.note(
                f"generation keeps away from {row.item} from now on, but in "
                f"{self.config.case.unrestrained:.0%} of the tests: {row.why} [{row.signature}]"
            )
        lifted = self.tamer.lift()
        for row in lifted:
            self.observer.note(
                f"{row.item} no longer fails and is generated again: {row.why} [{row.signature}]"
            )
        return bool(new or lifted)

    # -- watching -----------------------------------------------------------------------------

    def _tick(self, final: bool = False) -> None:
        self._last_tick = time.monotonic()
        self.observer.update(self.snapshot("done" if final else None))

    def snapshot(self, phase: str | None = None) -> Snapshot:
        figures = self.recorder.figures
        seconds = self.seconds()
        session = max(1e-9, seconds - self._earlier)
        rate = (figures.tests - self._tests_before) / session
        return Snapshot(
            phase=phase or self._phase(),
            seconds=seconds,
            left=self._time_left(seconds, rate),
            indexes=figures.indexes,
            tests=figures.tests,
            rate=rate,
            outcomes=dict(figures.outcomes),
            findings=len(self.recorder.findings()),
            occurrences=self.recorder.buckets.get("finding", 0),
            faults=self.faults,
            refused=len(self._refused),
            sut_share=self.sut_share(),
            tests_limit=self.config.tests_limit,
            decided=self.prober.decided(),
            signatures=len(self.prober.keys),
            flaky=self.recorder.buckets.get("flaky", 0),
            unreduced=self.reducer.waiting(),
            avoided=len(self.tamer.avoided),
        )

    def _phase(self) -> str:
        if self._reducing:
            return "reducing"
        return "probing" if self._probing else "fuzzing"

    def _time_left(self, seconds: float, rate: float) -> float | None:
        ends = []
        if self.config.time_limit is not None:
            ends.append(self.config.time_limit - seconds)
        if self.config.tests_limit is not None and rate:
            ends.append((self.config.tests_limit - self.recorder.figures.indexes) / rate)
        return max(0.0, min(ends)) if ends else None


def _export_outcome(failed: NotProduced) -> Outcome:
    return Outcome(
        OutcomeKind.UNSUPPORTED if failed.unsupported else OutcomeKind.EXCEPTION,
        Stage.EXPORT,
        failed.street,
        "export",
        failed.error_type,
        failed.message,
        failed.traceback,
        seconds={"export": failed.seconds.get("export", 0.0)},
    )


def _some(keys: set[str], count: int = 4) -> str:
    shown = sorted(keys)[:count]
    return ", ".join(shown) + (", ..." if len(keys) > count else "")
