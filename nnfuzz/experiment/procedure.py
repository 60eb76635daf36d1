"""The experiment: a case runs on targets, is compared, judged, repeated, and blamed on a target.

    run -> cheap comparison -> judge -> failures -> where a silent death begins
        -> repetition in fresh processes -> the targets that isolate the fault -> result

The sequence is one coroutine over `Services`; its driver decides which steps run at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.runner import RunnerError
from nnfuzz.backend.target import DIRECT, EXPORTED, MODULE, base_form, is_rewritten
from nnfuzz.compare.flip import PYTORCH, Blame, Coordinate
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.beginnings import operator_of_death
from nnfuzz.experiment.judgement import (
    accused_by,
    comparable_share,
    doubtful,
    excused,
    informed,
    same_outputs,
    unknown_outputs,
    with_contradictions,
    with_mismatches,
    with_nothing_compared,
)
from nnfuzz.experiment.pending import Pending
from nnfuzz.experiment.result import Event, Judging, Plan, Result, Run, Services
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.sandbox.events import Death, Trouble, event_line
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.identity import wordless
from nnfuzz.triage.signature import Failure, failures

FAULT, DEATH, FLAKY, UNDEFINED = "fault", "death", "flaky", "undefined"
REPEATS = 3
"""Fresh processes in which a failure must occur that may depend on the state of a process."""
LAST_WORDS = 2000  # characters of a dying compiler's output: its end has the reason
OWN_FORMS = (DIRECT, DYNAMIC, MODULE, EXPORTED)
"""No exporter to ONNX is to blame: nnfuzz wrote the model, or the compiler reads another form."""


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


class Procedure:
    """One experiment under way. settling: whether everything has run that was planned."""

    def __init__(self, case: TestCase, plan: Plan, services: Services) -> None:
        self.case, self.plan, self.services = case, plan, services
        self.settling = False
        self._outcomes: list[Outcome] = []
        self._verdict: Verdict | None = None
        self._agreed = False
        self._extra: list[Outcome] = []
        self._arbiters: list[Outcome] | None = None
        self._seconds = 0.0
        self._events: list[Event] = []

    async def result(self) -> Result:
        """Runs the whole experiment. Raises: any error that the services raise at once."""
        await self._run()
        self.settling = True
        await self._compare()
        self._outcomes = excused(self._outcomes)
        failures = await self._defined(await self._located(self._failures()))
        doubts = await self._repeated(failures)
        confirmed = [d.failure for d in doubts if d.certain]
        blames = {f.signature.hash: self._blame(f) for f in confirmed}
        if accused := [f for f in confirmed if self._unclear(f, blames[f.signature.hash])]:
            await self._isolate(accused)
            blames |= {f.signature.hash: self._blame(f) for f in accused}
        return Result(
            case=self.case,
            outcomes=tuple(self._outcomes),
            verdict=self._verdict,
            failures=tuple(confirmed),
            flaky=tuple(d.failure for d in doubts if not d.certain),
            repeats={d.failure.signature.hash: (d.repeated, d.tried) for d in doubts},
            blames=blames,
            extra=tuple(self._extra),
            comparable=comparable_share(self._verdict, self.case.expected),
            agreed=self._agreed,
            seconds=self._seconds,
            events=tuple(self._events),
        )

    async def _run(self) -> None:
        started = [(run, self.services.run(run)) for run in self.plan.runs]
        valid = [(run, self.services.run(run)) for run in self._without_fault()]
        self._outcomes = await self._outcomes_of(started)
        if valid:
            self._outcomes = informed(self._outcomes, await self._outcomes_of(valid))

    def _without_fault(self) -> list[Run]:
        """A model that must be refused says something where the same without its fault runs."""
        valid = self.case.valid
        return [replace(run, case=valid) for run in self.plan.runs] if valid else []

    async def _outcomes_of(
        self, started: Sequence[tuple[Run, Pending[list[Outcome] | RunnerError]]]
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for run, pending in started:
            answer = await pending
            if isinstance(answer, RunnerError):
                self._fault("run", str(answer), run.backend)
            else:
                outcomes += answer
                self._events += [_death(o) for o in answer if o.kind in _DEATHS]
        return outcomes

    async def _compare(self) -> None:
        ran = [o for o in self._outcomes if o.outputs is not None]
        agreeing = any(o.agrees for o in self._outcomes)
        if not (ran or agreeing) or self.plan.judging is Judging.NEVER:
            return
        start = time.perf_counter()
        doubts = doubtful(self.case, ran)
        self._agreed = not doubts
        self._seconds += time.perf_counter() - start
        asked = list(dict.fromkeys([*doubts, *unknown_outputs(self.case)]))
        if asked or self.plan.judging is Judging.ALWAYS:
            names = () if self.plan.judging is Judging.ALWAYS else asked
            self._verdict = await self._judged(ran, names)
        if self._verdict is not None:
            judged = with_mismatches(self._outcomes, self._verdict)
            judged = with_nothing_compared(judged, self._verdict, self.case.expected)
            self._outcomes = with_contradictions(judged, self._verdict)

    async def _computed_by_onnx(self) -> list[Outcome]:
        """The outcome of ONNX's reference evaluator on a model that no exporter wrote; none where
        there is no such model, or the evaluator cannot compute it.
        """
        if self._arbiters is None:
            form = base_form(self.case.exporter)
            made = self.case if form in OWN_FORMS else await self.services.direct(self.case)
            arbiter = await self.services.reference(made) if isinstance(made, TestCase) else made
            self._arbiters = [arbiter] if isinstance(arbiter, Outcome) and arbiter.ok else []
        return self._arbiters

    async def _judged(self, outcomes: Sequence[Outcome], names: Sequence[str]) -> Verdict | None:
        """None if the judge fails, or suspects the reference, which then accuses nobody."""
        verdict, seconds = await self.services.judge(self.case, outcomes, names, self.plan.habits)
        self._seconds += seconds
        if not isinstance(verdict, Verdict):
            self._trouble("compare", verdict)
            return None
        if verdict.suspect_reference:
            self._fault("compare", "PyTorch and every backend differ from the reference")
            return None
        return await self._uncontradicted(verdict, outcomes, names)

    async def _uncontradicted(
        self, verdict: Verdict, outcomes: Sequence[Outcome], names: Sequence[str]
    ) -> Verdict:
        """The verdict without what ONNX's reference evaluator contradicts, which accuses nobody and
        is a fault of nnfuzz until shown otherwise. It is asked only where an output is wrong.
        """
        mine = [o.target for o in outcomes]
        wrong = {m.output for t in mine for m in verdict.mismatches.get(t, ())}
        odd = {m.output for m in verdict.mismatches.get(PYTORCH, ())}
        arbiters = await self._computed_by_onnx() if wrong else []
        if not (odd & wrong) and set(doubtful(self.case, arbiters)).isdisjoint(wrong):
            return verdict  # it agrees with PyTorch
        if not {o.target for o in arbiters}.issubset(mine):
            habits = self.plan.habits
            asked = [*outcomes, *arbiters]
            again, seconds = await self.services.judge(self.case, asked, names, habits)
            self._seconds += seconds
            if isinstance(again, Verdict) and again.contradictions:
                verdict = again
        for text in verdict.differences:
            self._fault("compare", text)
        return verdict

    async def _defined(self, failures: list[Failure]) -> list[Failure]:
        """The failures without errors that a correct compiler may raise as well. It may raise them
        where an operator is undefined; no input excuses a process that dies."""
        raised = OutcomeKind.EXCEPTION
        errors = [f for f in failures if f.stage is Stage.EXECUTE and f.kind is raised]
        if not errors or not self.case.graph or self.case.fault:
            return failures
        verdict = await self._judged((), ())
        if verdict is None or verdict.defined:
            return failures
        self._events += [_undefined(failure) for failure in errors]
        return [failure for failure in failures if failure not in errors]

    def _failures(self) -> list[Failure]:
        return failures(self._outcomes, self._verdict, self.case.graph, self.case.fault)

    # -- where does it die? -------------------------------------------------------------------

    async def _located(self, failures: list[Failure]) -> list[Failure]:
        """The failures, with the operators at which processes die without a word."""
        silent = [f for f in failures if self._dies_anywhere(f)] if self.plan.locates else []
        for failure in silent:
            place = await self._place_of_death(failure)
            self._outcomes = [
                replace(o, dies_at=place) if o.target in failure.targets else o
                for o in self._outcomes
            ]
        return self._failures() if silent else failures

    def _dies_anywhere(self, failure: Failure) -> bool:
        """Whether a process dies of a valid model and no operator is known for it."""
        return (
            failure.kind is OutcomeKind.CRASH
            and self.case.fault is None
            and len(self.case.graph.operators) > 1
            and wordless(failure.signature.identity)
        )

    async def _place_of_death(self, failure: Failure) -> str:
        """The operator at which the most optimised failing level dies; "" if that is not clear."""

        async def dies(case: TestCase, fresh: bool) -> bool:
            run = Run(failure.backend, case, failure.levels[-1:], fresh=fresh, until=failure.stage)
            answer = await self.services.run(run)
            return not isinstance(answer, RunnerError) and any(
                (o.kind, o.stage) == (failure.kind, failure.stage) for o in answer
            )

        case = await self._with_known_names(failure.targets[0].form)
        return await operator_of_death(case, dies) if case else ""

    async def _with_known_names(self, form: str) -> TestCase | None:
        """The case with a model that has the graph's names of values, or without a model for what
        reads the graph; None if there is none.
        """
        if form in (MODULE, EXPORTED):
            return replace(self.case, model=b"")
        if form == DIRECT:
            return self.case
        direct = await self.services.direct(self.case)
        return direct if isinstance(direct, TestCase) else None

    # -- does it happen again? ----------------------------------------------------------------

    async def _repeated(self, failures: Sequence[Failure]) -> list[_Doubt]:
        """Has failures repeated in fresh processes, all at the same time."""
        doubts, started = [_Doubt(f, self.plan.repeats(f)) for f in failures], []
        for doubt in doubts:
            run = self._repetition(doubt.failure)
            started += [(doubt, self.services.run(run)) for _ in range(doubt.wanted)]
        for doubt, pending in started:
            again = await self._again(doubt.failure, await pending)
            if again is not None:  # after a fault of nnfuzz itself a repetition has no result
                doubt.tried += 1
                doubt.repeated += again
        self._events += [_flaky(doubt) for doubt in doubts if not doubt.certain]
        return doubts

    def _repetition(self, failure: Failure) -> Run:
        """A hang has to occur at one level only: each of them takes the whole time limit."""
        slow = failure.kind is OutcomeKind.TIMEOUT
        levels = failure.levels[:1] if slow else failure.levels
        return Run(failure.backend, self.case, levels, fresh=True, slow=slow)

    async def _again(self, failure: Failure, outcomes: list[Outcome] | RunnerError) -> bool | None:
        if isinstance(outcomes, RunnerError):
            self._fault("confirm", str(outcomes), failure.backend)
            return None
        before = {o.target: o for o in self._outcomes}
        if failure.kind is not OutcomeKind.MISMATCH:
            ends = {target: (o.kind, o.stage) for target, o in before.items()}
            return any(ends.get(o.target) == (o.kind, o.stage) for o in outcomes)
        if all(o.target in before and same_outputs(before[o.target], o) for o in outcomes):
            return True
        ran = [o for o in outcomes if o.ok]
        if not doubtful(self.case, ran):
            return False
        verdict = await self._judged(ran, ())
        return verdict is not None and any(verdict.mismatches.values())

    # -- whose fault is it? -------------------------------------------------------------------

    def _blame(self, failure: Failure) -> Blame:
        levels = self.plan.levels.get(failure.targets[0].compiler, ())
        return accused_by([*self._outcomes, *self._extra], self._verdict, failure, levels)

    def _unclear(self, failure: Failure, blame: Blame) -> bool:
        """Whether the form may be at fault, or a rewrite decides, and is worth further runs."""
        form, slow = failure.targets[0].form, failure.kind is OutcomeKind.TIMEOUT
        return (
            (failure.kind is OutcomeKind.MISMATCH or (is_rewritten(form) and not slow))
            and form not in OWN_FORMS
            and blame.coordinate is Coordinate.COMPILER
            and self.plan.isolates(failure)
        )

    async def _isolate(self, accused: Sequence[Failure]) -> None:
        """Runs the direct form as well, and ONNX's reference evaluator on the other form."""
        reference, direct = self.services.reference(self.case), self.services.direct(self.case)
        made, extra = await direct, []
        if isinstance(made, TestCase):
            runs = [Run(f.backend, made, f.levels) for f in accused]
            for pending in [self.services.run(run) for run in runs]:
                answer = await pending
                extra += [] if isinstance(answer, RunnerError) else answer
        else:
            self._trouble("lower", made)
        arbiter = await reference
        extra += [arbiter] if isinstance(arbiter, Outcome) else []
        ran = [o for o in [*self._outcomes, *extra] if o.outputs is not None]
        if any(o.ok for o in extra) and (verdict := await self._judged(ran, ())):
            self._verdict, self._extra = verdict, with_mismatches(extra, verdict)

    # -- events for the log -------------------------------------------------------------------

    def _fault(self, stage: str, message: str, backend: str = "") -> None:
        event = Event(FAULT, backend, stage, "", message)
        self._events += [event] if event not in self._events else []

    def _trouble(self, stage: str, event: Trouble) -> None:
        signal = event.signal if isinstance(event, Death) else ""
        self._events.append(Event(FAULT, "", stage, signal, event_line(event), event.captured))


def _flaky(doubt: _Doubt) -> Event:
    failure = doubt.failure
    message = f"{doubt.repeated} of {doubt.tried} times: {failure.signature.title}"
    return Event(FLAKY, failure.backend, failure.stage.value, message=message)


def _undefined(failure: Failure) -> Event:
    message = f"an operator may be out of its domain: {failure.signature.title}"
    return Event(UNDEFINED, failure.backend, failure.stage.value, message=message)


def _death(outcome: Outcome) -> Event:
    """A compiler's worker that died: kept with its signal and last words."""
    stage = f"{outcome.stage} {outcome.level}"
    texts = outcome.message, outcome.captured[-LAST_WORDS:]
    return Event(DEATH, outcome.backend, stage, outcome.signal, *texts)


_DEATHS = (OutcomeKind.CRASH, OutcomeKind.TIMEOUT)
