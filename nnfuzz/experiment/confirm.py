"""Whether a failure happens again in fresh processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.backend.runner import RunnerError
from nnfuzz.experiment.judge import Judge, doubtful, same_outputs
from nnfuzz.experiment.result import FLAKY, Compilers, Event, Run
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import Failure

REPEATS = 3
"""Fresh processes in which a failure must occur that may depend on the state of a process."""


@dataclass
class Doubt:
    """A failure, and how many of its repetitions failed in the same way."""

    failure: Failure
    wanted: int
    tried: int = 0
    repeated: int = 0

    @property
    def certain(self) -> bool:
        return not self.wanted or 0 < self.tried == self.repeated

    @property
    def repeats(self) -> tuple[int, int]:
        """(repetitions that failed in the same way, all repetitions)."""
        return self.repeated, self.tried


def repeated(
    compilers: Compilers, judge: Judge, found: Sequence[Failure], outcomes: Sequence[Outcome]
) -> list[Doubt]:
    """Repeats failures in fresh processes, as often as the plan wants. After a fault of nnfuzz a
    repetition has no result. Raises: ProducerError, and as `Compilers.run`.
    """
    doubts = [Doubt(failure, judge.plan.repeats(failure)) for failure in found]
    for doubt in doubts:
        run = _repetition(judge.case, doubt.failure)
        for answer in compilers.run([run] * doubt.wanted):
            if isinstance(answer, RunnerError):
                judge.log.fault("confirm", str(answer), run.backend)
                continue
            doubt.tried += 1
            doubt.repeated += _again(judge, doubt.failure, outcomes, answer)
    judge.log.events += [_flaky(doubt) for doubt in doubts if not doubt.certain]
    return doubts


def _repetition(case: TestCase, failure: Failure) -> Run:
    """The run that repeats a failure, in a fresh process. A hang is repeated at one level only,
    since each level takes the whole time limit.
    """
    slow = failure.kind is OutcomeKind.TIMEOUT
    levels = failure.levels[:1] if slow else failure.levels
    return Run(failure.backend, case, levels, fresh=True)


def _again(
    judge: Judge, failure: Failure, outcomes: Sequence[Outcome], now: Sequence[Outcome]
) -> bool:
    """Whether a repetition failed like the first run: with the same kind of outcome at the same
    stage; for a mismatch, with equal outputs or with any mismatch.

    outcomes: of the first run. now: of the repetition.
    """
    before = {o.target: o for o in outcomes}
    if failure.kind is not OutcomeKind.MISMATCH:
        ends = {target: (o.kind, o.stage) for target, o in before.items()}
        return any(ends.get(o.target) == (o.kind, o.stage) for o in now)
    if all(o.target in before and same_outputs(before[o.target], o) for o in now):
        return True
    ran = [o for o in now if o.ok]
    if not doubtful(judge.case, ran):
        return False
    verdict = judge.of(ran)
    return verdict is not None and any(verdict.mismatches.values())


def _flaky(doubt: Doubt) -> Event:
    failure = doubt.failure
    message = f"{doubt.repeated} of {doubt.tried} times: {failure.signature.title}"
    return Event(FLAKY, failure.backend, failure.stage.value, message=message)
