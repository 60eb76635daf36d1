"""One failing test case -> the smallest that fails in the same way."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import limits_of
from nnfuzz.backend.target import Pipeline
from nnfuzz.base.reading import Json
from nnfuzz.experiment.localise import shorten_pipeline
from nnfuzz.ir.sizes import operators
from nnfuzz.reduction.candidate import (
    CandidateQuestion,
    ReductionFigures,
    Tried,
    with_failure_keys,
)
from nnfuzz.reduction.diagnosis import NOTHING, Diagnosis, diagnose, wrong_inside
from nnfuzz.reduction.engine import BUDGET, ReductionEngine, Watch
from nnfuzz.reduction.experiments import kept
from nnfuzz.reduction.known import KnownCauses
from nnfuzz.reduction.trials import Servers, Trials
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.cause import Cause
from nnfuzz.triage.signature import FAILURES, Failure, answering

SECONDS = 20.0
"""Limit for a candidate of a failure that is not about time."""
ELEMENTS = 6
"""The entry of nnfuzz.reduction.subject.Subject.measure that counts elements."""
CONFIRMATIONS = 3
"""Runs in fresh processes, in all of which a reduced case has to fail."""


class NotReduced(ValueError):
    """Why a failure cannot be reduced."""


class NotShown(NotReduced):
    """A failure that occurs neither in a process that ran other models nor in a fresh one."""


class Unexplained(NotReduced):
    """No known cause explains a failure, and nothing else was asked."""


@dataclass(frozen=True, eq=False)
class ReduceConfig:
    """budget: candidates that are run. seconds: after which the best so far is taken, whatever the
    budget; the result then depends on the machine.

    watch: called with the progress. registry, servers: to share among reductions; servers are left
    open. causes: known ones; a case that fails for one of them is good enough. only_known: whether
    it is enough to say which of them it is.
    """

    budget: int = BUDGET
    seconds: float = math.inf
    watch: Watch = lambda progress: None
    registry: BackendRegistry | None = None
    servers: Servers | None = None
    causes: Sequence[Cause] = ()
    only_known: bool = False


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be reduced.

    backend: None for a failure of an exporter. config: the written CaseConfig. levels: of the
    backend that were run; empty: its default ones. exporter_accused: whether the direct lowering
    has to run beside every candidate. rival: another release of the backend, which must be right
    where the backend fails.
    """

    case: TestCase
    failure: Failure
    backend: BackendSpec | None
    config: Mapping[str, Json]
    levels: tuple[str, ...] = ()
    exporter_accused: bool = False
    rival: BackendSpec | None = None


@dataclass(frozen=True, eq=False)
class CaseReduction:
    """The result of a reduction.

    failure: of the reduced case; best: its case, outcomes and verdict. cause: the known one that
    was recognised.
    """

    failure: Failure
    best: Tried
    figures: ReductionFigures
    cause: Cause | None = None
    diagnosis: Diagnosis = NOTHING

    @property
    def case(self) -> TestCase:
        assert self.best.case is not None
        return self.best.case


def reduce_case(problem: Problem, config: ReduceConfig | None = None) -> CaseReduction:
    """The smallest test case with a failure of the same failure key that the passes reach.

    A function of the problem, the budget and the backend's behaviour.
    Raises: NotReduced if there is no graph or the failure does not occur again; Unexplained if only
    known causes are asked for; RegistryError, OptionError, RunnerError, WorkerError.
    """
    config = config or ReduceConfig()
    start = time.perf_counter()
    with asked(problem, config) as (trials, question, initial, wanted):
        whole = question
        if question.levels and problem.failure.kind is not OutcomeKind.TIMEOUT:
            question, initial = _with_fewer_levels(trials, question, initial, wanted)
        question = _shortened(question, problem.failure, initial)
        known = KnownCauses(config.causes, trials, question, wanted, problem.failure.stage)
        rest = known.without(initial)
        keeps = kept(trials, question, rest, wanted)
        limits = config.budget, config.watch, config.seconds
        engine = ReductionEngine(trials, question, rest, wanted, *limits, known.recognises, keeps)
        if config.only_known and known.found is None:
            raise Unexplained("the failure has another cause than those that are known")
        best = engine.reduce()
        if known.found is None and (alone := wrong_inside(trials, whole, best, wanted)):
            engine.keeps = bool  # the operators of ONNX have names of their own
            engine.adopt(alone)
            best = engine.reduce()
        confirmed = 0
        if known.found is None:
            questions = _confirming(whole, question)
            best, confirmed = _holding(trials, questions, engine.adopted, wanted)
        failure = next((f for f, mark in best.failing if mark == wanted), best.failing[0][0])
        diagnosis = NOTHING
        if known.found is None:
            asking = question if question.hurried else whole
            diagnosis = diagnose(trials, asking, [*engine.adopted, best], failure, config.causes)
    assert best.case is not None
    figures = ReductionFigures(
        nodes=(operators(problem.case.graph), operators(best.case.graph)),
        elements=(initial.measure[ELEMENTS], best.measure[ELEMENTS]),
        candidates=engine.progress.run,
        seconds=time.perf_counter() - start,
        confirmed=(confirmed, CONFIRMATIONS),
        known=known.found.hash if known.found else "",
    )
    return CaseReduction(failure, best, figures, known.found, diagnosis)


@contextmanager
def asked(
    problem: Problem, config: ReduceConfig
) -> Iterator[tuple[Trials, CandidateQuestion, Tried, str]]:
    """Workers, what they are asked about candidates, the case as it fails now, and the failure key
    that candidates must keep. Raises: as reduce_case does.
    """
    if not problem.case.graph:
        raise NotReduced("there is no graph, only a model: nothing to reduce")
    with _trials(problem, config) as trials:
        trials.start()
        question = _question(problem, trials)
        initial = trials.run(problem.case, (), question)
        if initial.digest and not initial.reason and not _marks(problem.failure, initial):
            initial = trials.run_fresh(problem.case, question)
        question, initial = _plainer(trials, question, initial, problem)
        question, initial = _without_silent(question, initial)
        yield trials, question, initial, _wanted(problem.failure, initial)


def _trials(problem: Problem, config: ReduceConfig) -> Trials:
    limits, spec, registry = None, problem.backend, config.registry
    if spec is not None:
        known = registry or BackendRegistry.discover(spec.plugins)
        limits = limits_of(known.get(spec.name).parse_options(spec.options))
        if problem.failure.kind is not OutcomeKind.TIMEOUT:
            limits = replace(limits, seconds=min(limits.seconds, SECONDS))
    shared = config.servers, problem.rival
    trials = Trials(problem.config, spec, registry, limits, *shared)
    trials.words = problem.failure.steady_words
    return trials


def _question(problem: Problem, trials: Trials) -> CandidateQuestion:
    runner = trials.runner
    if runner is None:
        return CandidateQuestion((), judged=False)
    levels = runner.backend.having(problem.levels)
    judged = problem.failure.kind is OutcomeKind.MISMATCH
    return CandidateQuestion(
        levels or runner.backend.default_levels(),
        judged=judged,
        habits=trials.habits() if judged else (),
        isolates=problem.exporter_accused,
    )


def _plainer(
    trials: Trials, question: CandidateQuestion, initial: Tried, problem: Problem
) -> tuple[CandidateQuestion, Tried]:
    """The question with a level of the backend in place of a drawn pipeline if that fails too;
    else with the fewest of its steps. A hang stays as it is: each run takes too long.
    """
    wanted, runner = problem.failure, trials.runner
    drawn = [level for level in question.levels if Pipeline.parse(level).steps]
    if not drawn or runner is None or wanted.kind is OutcomeKind.TIMEOUT:
        return question, initial
    plain = [level for level in question.levels if level not in drawn][:1]

    def failing(levels: Sequence[str]) -> list[str]:
        asked = replace(question, levels=tuple(dict.fromkeys([*plain, *levels])))
        tried = trials.run(problem.case, (), asked)
        return [
            level
            for failure, _ in tried.failing
            if failure.signature.hash == wanted.signature.hash
            for level in failure.levels
        ]

    known = failing(runner.backend.levels)
    level = known[0] if known else shorten_pipeline(drawn[0], failing)
    other = replace(question, levels=tuple(dict.fromkeys([*plain, level])))
    again = trials.run(problem.case, (), other)
    fails_too = any(f.signature.hash == wanted.signature.hash for f, _ in again.failing)
    return (other, again) if fails_too else (question, initial)


def _without_silent(question: CandidateQuestion, initial: Tried) -> tuple[CandidateQuestion, Tried]:
    """The question and its first answer, where levels that do not take the whole case have no say:
    what they cannot take is often beside the failure, and would have to stay.
    """
    silent = [o.level for o in initial.outcomes if o.kind is OutcomeKind.UNSUPPORTED]
    if not silent:
        return question, initial
    return replace(question, silent=tuple(silent)), with_failure_keys(initial, silent)


def _with_fewer_levels(
    trials: Trials, question: CandidateQuestion, initial: Tried, wanted: str
) -> tuple[CandidateQuestion, Tried]:
    """The question and its first answer at the levels that decide whether a candidate fails in the
    same way: the least optimised one and, if that is right, one that fails. All levels where the
    case does not fail so at these.
    """
    failing = {level for f, mark in initial.failing if mark == wanted for level in f.levels}
    ran = answering(initial.outcomes)
    optimised = [level for level in ran if level in failing][-1:] if ran[0] not in failing else []
    levels = (*ran[:1], *optimised)
    if len(levels) == len(question.levels) or not (optimised or failing.issuperset(ran)):
        return question, initial
    assert initial.case is not None
    fewer = replace(question, levels=levels)
    tried = trials.run(initial.case, (), fewer)
    same = any(mark == wanted for _, mark in tried.failing)
    return (fewer, tried) if same else (question, initial)


def _shortened(question: CandidateQuestion, failure: Failure, initial: Tried) -> CandidateQuestion:
    """The question of an error, with fewer runs: without the stages after that of the error and,
    if the least optimised level fails, without the levels behind one that passes. Where that level
    hangs, the others do not run, which would hang as well.
    """
    if failure.kind not in FAILURES:
        return question
    compiling = (Stage.EXPORT, Stage.TRANSFORM, Stage.IMPORT, Stage.COMPILE)
    until = failure.stage if failure.stage in compiling else Stage.EXECUTE
    first = initial.outcomes[0] if initial.outcomes else None
    plain = first is not None and first.kind in FAILURES
    if failure.kind is not OutcomeKind.TIMEOUT:
        return replace(question, until=until, lazy=plain)
    alone = plain and all(o.kind is OutcomeKind.TIMEOUT for o in initial.outcomes)
    levels = question.levels[:1] if alone else question.levels
    return replace(question, until=until, levels=levels, hurried=True)


def _wanted(failure: Failure, initial: Tried) -> str:
    """The failure key of the failure as it occurs now. Raises: NotReduced if it does not."""
    if not initial.digest or initial.reason:
        reason = initial.reason.partition("\n")[0]
        raise NotReduced(f"the test case cannot be prepared: {reason}")
    if marks := _marks(failure, initial):
        return marks[0]
    titles = ", ".join(f.signature.title for f, _ in initial.failing) or "no failure"
    raise NotShown(f"does not reproduce: {titles}")


def _marks(failure: Failure, initial: Tried) -> list[str]:
    """The failure keys of what fails as a failure does; else those of its kind and stage."""
    failing, way = initial.failing, (failure.kind, failure.stage)
    exact = [mark for f, mark in failing if f.signature.hash == failure.signature.hash]
    return exact or [mark for f, mark in failing if (f.kind, f.stage) == way]


def _holding(
    trials: Trials, questions: Sequence[CandidateQuestion], history: Sequence[Tried], wanted: str
) -> tuple[Tried, int]:
    """The last case of a reduction that fails in every fresh process, as it fails there, and in how
    many it failed.

    history: cases in the order in which they were adopted. Where the last one does not hold, an
    earlier one that does is looked for in steps that double, and then by bisection: what depends
    on the state of a process mostly does so from some step on. The last case if none holds.
    """

    def failed(position: int) -> list[Tried]:
        return _fresh(trials, questions, history[position], wanted)

    last = len(history) - 1
    runs = failed(last)
    if len(runs) == len(questions):
        return runs[0], len(runs)
    best, confirmed = (runs or history[last:])[0], len(runs)
    bad, good, step = last, -1, 1
    while bad > 0 and good < 0:
        tried = max(0, bad - step)
        step *= 2
        if len(runs := failed(tried)) == len(questions):
            good, best, confirmed = tried, runs[0], len(runs)
        else:
            bad = tried
    while good >= 0 and bad - good > 1:
        middle = (good + bad) // 2
        if len(runs := failed(middle)) == len(questions):
            good, best = middle, runs[0]
        else:
            bad = middle
    return best, confirmed


def _confirming(whole: CandidateQuestion, question: CandidateQuestion) -> list[CandidateQuestion]:
    """What fresh processes are asked, all levels and stages first. A hang has to last for the whole
    time limit once.
    """
    others = question if question.hurried else whole
    return [whole, *[others] * (CONFIRMATIONS - 1)]


def _fresh(
    trials: Trials, questions: Iterable[CandidateQuestion], tried: Tried, wanted: str
) -> list[Tried]:
    """The runs in fresh processes, one for each question, that fail in the same way."""
    assert tried.case is not None
    runs = [trials.run_fresh(tried.case, question) for question in questions]
    return [run for run in runs if any(mark == wanted for _, mark in run.failing)]
