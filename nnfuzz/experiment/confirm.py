"""Whether a failure happens again in fresh processes, and at which operator a process dies.

A signal without a message is the same for every cause. The shortest beginning of the model that
dies in the same way ends with the operator that distinguishes one such death from another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nnfuzz.backend.complaint import read_complaint
from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.backend.runner import RunnerError
from nnfuzz.backend.target import DIRECT, EXPORTED, MODULE
from nnfuzz.experiment.judge import Judge, doubtful, lost, same_outputs
from nnfuzz.experiment.result import FLAKY, Compilers, Event, Run
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.client import ProducerClient, ProducerError
from nnfuzz.triage.signature import Failure, text_of, wordless

REPEATS = 3
"""Fresh processes in which a failure must occur that may depend on the state of a process."""
SPEAKING = (OutcomeKind.EXCEPTION, OutcomeKind.CRASH)


@dataclass
class Doubt:
    """A failure, and how many of its repetitions failed in the same way. again: their outcomes."""

    failure: Failure
    wanted: int
    tried: int = 0
    repeated: int = 0
    again: list[Outcome] = field(default_factory=list)

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
            if not judge.case.fault:
                answer = lost([*outcomes, *answer])[len(outcomes) :]
            doubt.tried += 1
            doubt.repeated += _again(judge, doubt.failure, outcomes, answer)
            doubt.again += answer
    judge.log.events += [_flaky(doubt) for doubt in doubts if not doubt.certain]
    return doubts


def steady(outcomes: Sequence[Outcome], doubts: Iterable[Doubt]) -> list[Outcome]:
    """Outcomes without the words of their errors that change when the same failure is repeated."""
    again = [o for doubt in doubts for o in doubt.again if o.kind in SPEAKING]
    return [_steady(o, [a for a in again if o.same_end(a)]) for o in outcomes]


def _steady(outcome: Outcome, again: Sequence[Outcome]) -> Outcome:
    if not again:
        return outcome
    own, *others = (o.complaint or read_complaint(text_of(o)) for o in (outcome, *again))
    complaint = own.steady(others)
    return replace(outcome, complaint=complaint) if complaint != own else outcome


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


def located(
    compilers: Compilers,
    bench: ProducerClient,
    case: TestCase,
    silent: Sequence[Failure],
    outcomes: list[Outcome],
) -> list[Outcome]:
    """The outcomes, with the operators at which processes die. silent: failures for which
    `dies_silently` holds.
    """
    for failure in silent:
        place = _place_of_death(compilers, bench, case, failure)
        outcomes = [
            replace(o, dies_at=place) if o.target in failure.targets else o for o in outcomes
        ]
    return outcomes


def dies_silently(case: TestCase, failure: Failure) -> bool:
    """Whether a process dies of a valid model and says nothing that names an operator."""
    return (
        failure.kind is OutcomeKind.CRASH
        and case.fault is None
        and len(case.graph.operators) > 1
        and wordless(failure.signature.details)
    )


def _place_of_death(
    compilers: Compilers, bench: ProducerClient, case: TestCase, failure: Failure
) -> str:
    """The operator at which the most optimised failing level dies; "" if the model has other names
    than the graph, or runs disagree. It takes a logarithm of the number of operators, and one fresh
    process to confirm.
    """
    from nnfuzz.testcase.extraction import beginning  # it takes time, and few campaigns need it

    def dies(count: int, fresh: bool = False) -> bool:
        if (cut := beginning(known, count)) is None:
            return False
        run = Run(failure.backend, cut, failure.levels[-1:], fresh=fresh, until=failure.stage)
        (answer,) = compilers.run([run])
        return not isinstance(answer, RunnerError) and any(
            (o.kind, o.stage) == (failure.kind, failure.stage) for o in answer
        )

    try:
        known = _with_known_names(bench, case, failure.targets[0].form)
    except ProducerError:
        return ""
    died = bisect_left(range(len(known.graph.nodes)), True, lo=1, key=dies)
    return known.graph.nodes[died - 1].op if dies(died, True) else ""


def _with_known_names(bench: ProducerClient, case: TestCase, form: str) -> TestCase:
    """The case with a model that has the graph's names of values. For a compiler that reads the
    graph itself, the case has no model. Raises: ProducerError if no such model can be written.
    """
    if form in (MODULE, EXPORTED):
        return replace(case, model=b"")
    return case if form == DIRECT else bench.lower(case)
