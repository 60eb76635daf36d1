"""One test case on its way: backends, comparison, judge, confirmation, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from nnfuzz.campaign.judgement import (
    accused_party,
    comparable_share,
    doubtful,
    judge_job,
    same_outputs,
    suspects_reference,
    with_mismatches,
)
from nnfuzz.campaign.pools import BackendPool, Job, Run, describe
from nnfuzz.campaign.probe import Probe
from nnfuzz.campaign.recorder import Evidence
from nnfuzz.campaign.rows import EventRow
from nnfuzz.execute.events import Death, Fault, Reply
from nnfuzz.execute.outcome import Outcome, OutcomeKind
from nnfuzz.execute.runner import RunnerError
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import Failure, failures

TEST = "test"
FAULT = "fault"
DEATH = "death"
FLAKY = "flaky"
REPEATS = 3
DIRECT = "@direct"  # what the judge calls a backend that ran the direct lowering
IMPORTER_OR_KERNEL = "importer or kernel"


class Services(Protocol):
    """What a flight needs from the campaign."""

    def judge(self, job: Job) -> None: ...
    def knows(self, signature: str, index: int) -> bool: ...
    def landed(self, flight: Flight, evidence: Evidence) -> None: ...


@dataclass
class _Doubt:
    """A failure, and how many of its repetitions failed in the same way."""

    failure: Failure
    wanted: int
    tried: int = 0
    repeated: int = 0

    @property
    def certain(self) -> bool:
        return not self.wanted or 0 < self.tried == self.repeated


class Flight:
    """A test case, or a probe, from its production to its record.

    `backends` are the pools to run on, each with its levels; `probe` is set if it is one;
    `sampled` asks for the judge even if the outputs agree.
    """

    def __init__(
        self,
        services: Services,
        case: TestCase,
        backends: Sequence[tuple[BackendPool, tuple[str, ...]]],
        epoch: int,
        probe: Probe | None = None,
        sampled: bool = False,
    ) -> None:
        self.services = services
        self.case = case
        self.probe = probe
        self.outcomes: dict[str, list[Outcome]] = {}
        self.settling = False  # every backend has answered
        self.sampled = sampled
        self.agreed = False
        self._pools = {pool.name: pool for pool, _ in backends}
        self._epoch = epoch
        self._waiting = len(backends)
        self._verdict: dict[str, Any] | None = None
        self._doubts: list[_Doubt] = []
        self._confirmed: list[Failure] = []
        self._flaky: list[Failure] = []
        self._events: list[EventRow] = []
        self._compare_seconds = 0.0
        for pool, levels in backends:
            pool.queue.append(Run(case, levels, partial(self._ran, pool.name)))

    def _ran(self, backend: str, result: list[Outcome] | RunnerError) -> None:
        if isinstance(result, RunnerError):
            self._fault("run", str(result), backend)
            result = []
        self.outcomes[backend] = result
        self._events += [self._death(o) for o in result if o.kind in _DEATHS]
        self._waiting -= 1
        if not self._waiting:
            self._compare()

    def _compare(self) -> None:
        self.settling = True
        start = time.perf_counter()
        ran = [o for outcomes in self.outcomes.values() for o in outcomes if o.ok]
        doubts = doubtful(self.case, ran)
        self.agreed = not doubts
        self._compare_seconds = time.perf_counter() - start
        if ran and (self.sampled or doubts):
            self._ask_judge(ran, self._judged, () if self.sampled else doubts)
        else:
            self._triage()

    def _ask_judge(
        self,
        outcomes: Sequence[Outcome],
        done: Callable[[dict[str, Any] | None], None],
        names: Sequence[str] = (),
    ) -> None:
        header, blobs = judge_job(self.case, outcomes, names)

        def answer(event: Reply | Fault | Death, epoch: int, seconds: float) -> None:
            self._compare_seconds += seconds
            if isinstance(event, Reply):
                done(event.header["verdict"])
            else:
                self._fault("compare", describe(event), details=event.captured, event=event)
                done(None)

        self.services.judge(Job(header, answer, blobs))

    def _judged(self, verdict: dict[str, Any] | None) -> None:
        if suspects_reference(verdict):
            self._fault("compare", "PyTorch and every backend differ from the reference")
            verdict = None
        self._verdict = verdict
        if verdict is not None:
            for name, outcomes in self.outcomes.items():
                self.outcomes[name] = with_mismatches(outcomes, verdict)
        self._triage()

    # -- does it happen again? ----------------------------------------------------------------

    def _triage(self) -> None:
        """Decides which failures there are, and has those repeated that need it."""
        found = failures(self._all(), self._verdict, self.case.graph)
        self._doubts = [_Doubt(f, self._runs_for(f)) for f in found]
        self._waiting = sum(doubt.wanted for doubt in self._doubts)
        for doubt in self._doubts:
            failure = doubt.failure
            for _ in range(doubt.wanted):
                run = Run(self.case, failure.levels, partial(self._repeated, doubt), fresh=True)
                self._pools[failure.backend].urgent.append(run)
        if not self._waiting:
            self._sort()
            self._land()

    def _runs_for(self, failure: Failure) -> int:
        """Runs in fresh workers that must all fail in the same way before it counts.

        Exceptions come from the same code on the same model: one suffices. What is known already
        is believed, but for mismatches, whose signatures say little.
        """
        known = self.services.knows(failure.signature.hash, self.case.index)
        if failure.kind is OutcomeKind.MISMATCH:
            return 1 if known else REPEATS
        if known:
            return 0
        return 1 if failure.kind is OutcomeKind.EXCEPTION else REPEATS

    def _repeated(self, doubt: _Doubt, result: list[Outcome] | RunnerError) -> None:
        failure = doubt.failure
        if isinstance(result, RunnerError):
            self._fault("confirm", str(result), failure.backend)
            self._settle(doubt, None)
        elif failure.kind is not OutcomeKind.MISMATCH:
            before = {o.level: (o.kind, o.stage) for o in self.outcomes[failure.backend]}
            self._settle(doubt, any(before[o.level] == (o.kind, o.stage) for o in result))
        else:
            self._repeated_mismatch(doubt, result)

    def _repeated_mismatch(self, doubt: _Doubt, result: list[Outcome]) -> None:
        before = {o.level: o for o in self.outcomes[doubt.failure.backend]}
        if all(same_outputs(before[o.level], o) for o in result):
            self._settle(doubt, True)
        elif doubtful(self.case, result):
            self._ask_judge(result, lambda v: self._settle(doubt, _still_wrong(result, v)))
        else:
            self._settle(doubt, False)

    def _settle(self, doubt: _Doubt, again: bool | None) -> None:
        """Counts one repetition; None if a fault of nnfuzz kept it from saying anything."""
        if again is not None:
            doubt.tried += 1
            doubt.repeated += again
        self._waiting -= 1
        if not self._waiting:
            self._sort()
            self._ask_direct()

    def _sort(self) -> None:
        """Parts what always fails from what sometimes does."""
        self._confirmed = [d.failure for d in self._doubts if d.certain]
        self._flaky = [d.failure for d in self._doubts if not d.certain]
        self._events += [
            EventRow(
                self.case.index,
                FLAKY,
                doubt.failure.backend,
                doubt.failure.stage.value,
                message=f"{doubt.repeated} of {doubt.tried} times: {doubt.failure.signature.title}",
            )
            for doubt in self._doubts
            if not doubt.certain
        ]

    # -- is the exporter to blame? --------------------------------------------------------------

    def _ask_direct(self) -> None:
        """Has new mismatches that the optimiser did not cause run by direct lowering as well."""
        self._accused = [f for f in self._confirmed if self._may_be_exporter(f)]
        if not self._accused:
            return self._land()
        header, blobs = self.case.to_frame()
        self.services.judge(Job({"do": "lower", "case": header}, self._lowered, blobs))

    def _may_be_exporter(self, failure: Failure) -> bool:
        return (
            failure.kind is OutcomeKind.MISMATCH
            and self.case.exporter not in ("direct", DYNAMIC)
            and accused_party(self._verdict, failure.backend) == IMPORTER_OR_KERNEL
            and not self.services.knows(failure.signature.hash, self.case.index)
        )

    def _lowered(self, event: Reply | Fault | Death, epoch: int, seconds: float) -> None:
        if not isinstance(event, Reply):
            self._fault("lower", describe(event), details=event.captured, event=event)
            return self._land()
        case = replace(self.case, model=bytes(event.blobs["model"]))
        self._waiting = len(self._accused)
        self._direct: list[Outcome] = []
        for failure in self._accused:
            run = Run(case, failure.levels, self._ran_direct)
            self._pools[failure.backend].urgent.append(run)

    def _ran_direct(self, result: list[Outcome] | RunnerError) -> None:
        if not isinstance(result, RunnerError):
            self._direct += [replace(o, backend=o.backend + DIRECT) for o in result if o.ok]
        self._waiting -= 1
        if not self._waiting:
            if self._direct:
                self._ask_judge([*self._all(), *self._direct], self._judged_direct)
            else:
                self._land()

    def _judged_direct(self, verdict: dict[str, Any] | None) -> None:
        if verdict is not None and not suspects_reference(verdict):
            self._verdict = verdict
        self._land()

    def _land(self) -> None:
        outcomes = self._all()
        ran = sum(sum(o.seconds.values()) for o in outcomes)
        share = comparable_share(self._verdict, self.case.expected) if self._verdict else None
        evidence = Evidence(
            index=self.case.index,
            origin=str(self.probe or TEST),
            epoch=self._epoch,
            job=self.probe.job() if self.probe else {"do": "produce", "index": self.case.index},
            case=self.case,
            status="run" if outcomes else FAULT,
            outcomes=outcomes,
            verdict=self._verdict,
            confirmed=tuple(self._confirmed),
            flaky=tuple(self._flaky),
            repeats={d.failure.signature.hash: (d.repeated, d.tried) for d in self._doubts},
            seconds={**self.case.seconds, "execute": ran, "compare": self._compare_seconds},
            comparable=share,
            events=tuple(self._events),
        )
        self.services.landed(self, evidence)

    def _all(self) -> list[Outcome]:
        return [o for outcomes in self.outcomes.values() for o in outcomes]

    def _fault(
        self,
        stage: str,
        message: str,
        backend: str = "",
        details: str = "",
        event: Fault | Death | None = None,
    ) -> None:
        signal = event.signal if isinstance(event, Death) else ""
        self._events.append(
            EventRow(self.case.index, FAULT, backend, stage, signal, message, details)
        )

    def _death(self, outcome: Outcome) -> EventRow:
        """A compiler's worker that died: kept with its signal and last words."""
        return EventRow(
            self.case.index,
            DEATH,
            outcome.backend,
            f"{outcome.stage} {outcome.level}",
            outcome.signal,
            outcome.message,
            outcome.captured[-2000:],
        )


_DEATHS = (OutcomeKind.CRASH, OutcomeKind.TIMEOUT)


def _still_wrong(outcomes: Sequence[Outcome], verdict: dict[str, Any] | None) -> bool:
    if verdict is None:
        return False
    return any(o.kind is OutcomeKind.MISMATCH for o in with_mismatches(outcomes, verdict))
