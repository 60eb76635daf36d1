"""The lane: the one way that a test case takes through compilers, judge, confirmation and blame.

    run -> compare -> find where a process dies silently -> repeat in fresh processes
        -> run the targets that isolate the fault -> result

`Lane.test` does these steps one after the other, and each of them ends before the next one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnfuzz.backend.numeric import BY_DEFAULT, Deviation
from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.backend.runner import RunnerError
from nnfuzz.backend.target import is_rewritten
from nnfuzz.compare.flip import Blame, Coordinate
from nnfuzz.experiment.confirm import dies_silently, located, repeated, steady
from nnfuzz.experiment.judge import (
    OWN_FORMS,
    Judge,
    accused_by,
    comparable_share,
    excused,
    informed,
    lost,
    with_mismatches,
)
from nnfuzz.experiment.result import DEATH, Compilers, Event, Log, Plan, Result, Run, Workbench
from nnfuzz.ir.sizes import name_and_copy
from nnfuzz.materialize.opsets import is_called
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.client import ProducerError
from nnfuzz.triage.signature import Failure, failures

LAST_WORDS = 2000  # characters of a dying compiler's output: its end has the reason
_DEATHS = (OutcomeKind.CRASH, OutcomeKind.TIMEOUT)


class Lane:
    """Takes test cases over compilers and says which of these are wrong.

    compilers: run models in processes below this one. bench: judges outputs, and writes models in
    other forms.
    """

    def __init__(self, compilers: Compilers, bench: Workbench) -> None:
        self.compilers, self.bench = compilers, bench

    def test(self, case: TestCase, plan: Plan) -> Result:
        """Runs and judges a case, and confirms and blames its failures.

        Raises: ProducerError if the bench fails, and as `Compilers.run`.
        """
        log = Log()
        judge = Judge(case, plan, self.bench, log)
        outcomes = excused(judge.compared(self._run(case, plan, log)))
        if not case.fault:
            outcomes = lost(outcomes)
        self._explain_defaults(judge, outcomes)
        self._explain_calls(judge, outcomes)
        found = self._failures(case, judge, outcomes)
        silent = [f for f in found if dies_silently(case, f)] if plan.locates else []
        if silent:
            outcomes = located(self.compilers, self.bench, case, silent, outcomes)
            found = self._failures(case, judge, outcomes)
        doubts = repeated(self.compilers, judge, judge.defined(found), outcomes)
        confirmed = [doubt.failure for doubt in doubts if doubt.certain]
        if (now := steady(outcomes, doubts)) != outcomes:
            outcomes = now
            renamed = {f.targets: f for f in self._failures(case, judge, outcomes)}
            doubts = [replace(d, failure=renamed.get(d.failure.targets, d.failure)) for d in doubts]
            confirmed = [
                *{d.failure.signature.hash: d.failure for d in doubts if d.certain}.values()
            ]
        extra, blames = self._blamed(judge, confirmed, outcomes)
        return Result(
            case=case,
            outcomes=tuple(outcomes),
            verdict=judge.verdict,
            failures=tuple(confirmed),
            flaky=tuple(doubt.failure for doubt in doubts if not doubt.certain),
            repeats={doubt.failure.signature.hash: doubt.repeats for doubt in doubts},
            blames=blames,
            extra=tuple(extra),
            comparable=comparable_share(judge.verdict, case.expected),
            agreed=judge.agreed,
            seconds=judge.seconds,
            events=tuple(log.events),
        )

    def _run(self, case: TestCase, plan: Plan, log: Log) -> list[Outcome]:
        """The outcomes of the planned runs. A model that must be refused says something where the
        same model without its fault runs.
        """
        valid = [replace(run, case=case.valid) for run in plan.runs] if case.valid else []
        answers = self.compilers.run([*plan.runs, *valid])
        outcomes = self._answered(plan.runs, answers[: len(plan.runs)], log)
        if valid:
            outcomes = informed(outcomes, self._answered(valid, answers[len(plan.runs) :], log))
        return outcomes

    def _answered(
        self, runs: Sequence[Run], answers: Sequence[list[Outcome] | RunnerError], log: Log
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for run, answer in zip(runs, answers, strict=True):
            if isinstance(answer, RunnerError):
                log.fault("run", str(answer), run.backend)
            else:
                outcomes += answer
                log.events += [_death(o) for o in answer if o.kind in _DEATHS]
        return outcomes

    def _explain_defaults(self, judge: Judge, outcomes: Sequence[Outcome]) -> None:
        """Notes in the verdict which setting makes a compiler right that is wrong as its users have
        it: the first of the steps that alone does, or all of them.
        """
        wrong = [o for o in outcomes if o.kind is OutcomeKind.MISMATCH]
        exact = {o.backend for o in wrong if not o.given_away}
        for own in wrong:
            if judge.verdict is None or not own.given_away or own.backend in exact:
                continue
            settings = dict.fromkeys([*own.given_away, "+".join(own.given_away)])
            levels = tuple(f"{own.level}+{setting}" for setting in settings)
            if right := self._right(judge, Run(own.backend, judge.case, levels)):
                habit = Deviation(BY_DEFAULT, right[0].level.removeprefix(f"{own.level}+"))
                explained = {**judge.verdict.explained, own.target: (habit,)}
                judge.verdict = replace(judge.verdict, explained=explained)

    def _explain_calls(self, judge: Judge, outcomes: Sequence[Outcome]) -> None:
        """Notes in the verdict which targets are wrong only if a program is called several times.
        Their first wrong call is right if the program is called once.
        """
        wrong = [o for o in outcomes if o.kind is OutcomeKind.MISMATCH]
        for own in wrong if is_called(judge.case.exporter) else ():
            if judge.verdict is None:
                continue
            missed = judge.verdict.mismatches[own.target]
            first = min(name_and_copy(mismatch.output)[1] for mismatch in missed)
            alone = Judge(judge.case.call(first), judge.plan, self.bench, judge.log)
            if self._right(alone, Run(own.backend, alone.case, (own.level,), fresh=True)):
                calls = {**judge.verdict.calls, own.target: first}
                judge.verdict = replace(judge.verdict, calls=calls)

    def _right(self, judge: Judge, run: Run) -> list[Outcome]:
        """The outcomes of a further run whose outputs are right."""
        (answer,) = self.compilers.run([run])
        ran = [] if isinstance(answer, RunnerError) else [o for o in answer if o.outputs]
        verdict = judge.of(ran) if ran else None
        return [o for o in ran if verdict and not verdict.mismatches[o.target]]

    @staticmethod
    def _failures(case: TestCase, judge: Judge, outcomes: Sequence[Outcome]) -> list[Failure]:
        return failures(outcomes, judge.verdict, case.graph, case.fault)

    def _blamed(
        self, judge: Judge, confirmed: Sequence[Failure], outcomes: Sequence[Outcome]
    ) -> tuple[list[Outcome], dict[str, Blame]]:
        """Outcomes of further targets, and the blame of each failure by signature."""
        plan, extra = judge.plan, list[Outcome]()

        def blame(failure: Failure) -> Blame:
            levels = plan.levels.get(failure.targets[0].compiler, ())
            return accused_by([*outcomes, *extra], judge.verdict, failure, levels)

        blames = {failure.signature.hash: blame(failure) for failure in confirmed}
        if accused := [f for f in confirmed if _unclear(f, blames[f.signature.hash], plan)]:
            extra = self._isolated(judge, accused, outcomes)
            blames |= {failure.signature.hash: blame(failure) for failure in accused}
        return extra, blames

    def _isolated(
        self, judge: Judge, accused: Sequence[Failure], outcomes: Sequence[Outcome]
    ) -> list[Outcome]:
        """The outcomes of the direct form, and of onnx.reference on the other form."""
        extra: list[Outcome] = []
        try:
            direct = self.bench.lower(judge.case)
        except ProducerError as error:
            judge.log.fault("lower", str(error))
        else:
            runs = [Run(failure.backend, direct, failure.levels) for failure in accused]
            answers = self.compilers.run(runs)
            extra += [o for own in answers if not isinstance(own, RunnerError) for o in own]
        extra += judge.computed_by_onnx(judge.case)
        ran = [o for o in [*outcomes, *extra] if o.outputs is not None]
        if any(o.ok for o in extra) and (verdict := judge.of(ran)):
            judge.verdict = verdict
            return with_mismatches(extra, verdict)
        return []


def _unclear(failure: Failure, blame: Blame, plan: Plan) -> bool:
    """Whether the form may be at fault, or a rewrite decides, and is worth further runs."""
    form, slow = failure.targets[0].form, failure.kind is OutcomeKind.TIMEOUT
    return (
        (failure.kind is OutcomeKind.MISMATCH or (is_rewritten(form) and not slow))
        and form not in OWN_FORMS
        and blame.coordinate is Coordinate.COMPILER
        and plan.isolates(failure)
    )


def _death(outcome: Outcome) -> Event:
    """A compiler's worker that died: kept with its signal and last words."""
    stage = f"{outcome.stage} {outcome.level}"
    texts = outcome.message, outcome.captured[-LAST_WORDS:]
    return Event(DEATH, outcome.backend, stage, outcome.signal, *texts)
