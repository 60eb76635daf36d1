"""Localises a failure: which levels, which optimiser pass and which operator cause it.

Three experiments are made on one test case:

1. Every level of the backend runs, and the pipeline that was drawn for the case.
2. The steps of the first level that fails are shortened to those that it needs, and passes are
   switched off until it no longer fails.
3. Every value becomes an output, so that the first wrong one names its operator.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import EXPORTED, MODULE, ONNX, Pipeline, Target
from nnfuzz.compare.flip import Blame, Coordinate, State, blame, state_of
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.judge import OWN_FORMS, with_mismatches
from nnfuzz.experiment.result import Result, form_of
from nnfuzz.materialize.validity import invalid
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.client import ProducerClient, ProducerError
from nnfuzz.triage.mismatch import first_wrong
from nnfuzz.triage.signature import Details, ErrorDetails, Failure, RefusalDetails, failures
from nnfuzz.triage.survey import patience

FAILS, CURED = "fails", "ok"
MOST_RUNS = 120
"""Runs of the backend that the first round of switching passes off may take."""


Failing = Callable[[Sequence[str]], Collection[str]]
"""Which of some pipelines, as texts, fail in the way that matters."""


@dataclass(frozen=True)
class Ablation:
    """A run with some passes switched off. answer: FAILS, CURED or the kind of another outcome."""

    without: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Localisation:
    """The origin of a failure, as far as experiments show it.

    levels: level -> answer. level: the first one that fails, with only the steps that the failure
    needs. party: the accused component. evidence: one sentence for each result. passes: those that
    cure the failure when they are switched off, or else the options among the steps. value,
    operator: the first wrong value in topological order and the operator that computes it, "" if
    unknown. module: the test case as PyTorch source if the backend reads that, otherwise "".
    """

    levels: Mapping[str, str]
    level: str
    party: str
    evidence: tuple[str, ...]
    passes: tuple[str, ...] = ()
    ablation: tuple[Ablation, ...] = ()
    operator: str = ""
    value: str = ""
    module: str = ""


@dataclass
class _Search:
    """The experiments on one case.

    states: how each target that has run did, at all of its passes. rows: runs with passes switched
    off. good: answers that count as cured. seconds: time limit of one run.
    """

    case: TestCase
    failure: Failure
    runner: BackendRunner
    producer: ProducerClient
    states: dict[Target, State] = field(default_factory=dict)
    rows: list[Ablation] = field(default_factory=list)
    good: frozenset[str] = frozenset({CURED})
    seconds: float = math.inf

    def answers(self, levels: Sequence[str], without: Collection[str] = ()) -> dict[str, str]:
        """Runs the levels without some passes; returns level -> answer.

        An answer is FAILS for the failure in question, CURED for a right result, otherwise the kind
        of the outcome.
        """
        limits = levels, without, self.seconds
        result = examine(self.case, self.runner, self.producer, *limits)
        ended = [sum(o.seconds.values()) for o in result.outcomes if o.ok]
        if self.failure.kind is OutcomeKind.TIMEOUT and ended:
            self.seconds = patience(max(ended))
        self.states |= {o.target: state_of(o) for o in result.outcomes if not without}
        return {outcome.level: self._answer(outcome, result) for outcome in result.outcomes}

    def _answer(self, outcome: Outcome, result: Result) -> str:
        observed = failures([outcome], result.verdict, self.case.graph, model=self.case.model)
        if any(same_error(other, self.failure) for other in observed):
            return FAILS
        return str(observed[0].kind if observed else outcome.kind)

    @property
    def form(self) -> str:
        return form_of(self.case, self.runner)

    def blame(self, failing: Collection[str]) -> Blame:
        """Returns the coordinate that the targets run so far accuse. failing: levels that fail."""
        compiler, levels = self.runner.spec.name, self.runner.backend.with_default()
        bad = [t for t in self.states if t.level in failing and t.form == self.form]
        return blame(self.states, compiler, bad, levels)

    def other_forms(self, level: str) -> None:
        """Runs the direct form, and has ONNX itself judge the exported form.

        A wrong value is compared with ONNX's reference evaluator; for any other failure, ONNX's
        checker examines the model.
        """
        with contextlib.suppress(ProducerError):
            made = self.producer.lower(self.case)
            result = examine(made, self.runner, self.producer, [level])
            self.states |= {o.target: state_of(o) for o in result.outcomes}
        if self.failure.kind is not OutcomeKind.MISMATCH:
            state = State.IMPORT if _invalid(self.case, self.failure) else State.RIGHT
            self.states[Target("onnx.checker", form=self.case.exporter)] = state
            return
        with contextlib.suppress(ProducerError):
            arbiter = self.producer.reference(self.case)
            verdict = self.producer.judge(self.case, [arbiter]) if arbiter.ok else None
            (arbiter,) = with_mismatches([arbiter], verdict) if verdict else [arbiter]
            self.states[arbiter.target] = state_of(arbiter)

    def usual_form(self, level: str) -> None:
        """Runs the direct form in ONNX on a backend whose option `form` asks for another input.

        Does nothing if the backend runs without that option.
        """
        spec = self.runner.spec
        options = dict(spec.options)
        if options.pop(self.runner.backend.meant().get("form", ""), None) is None:
            return
        with contextlib.suppress(ProducerError):
            made = self.producer.lower(self.case)
            with BackendRunner(replace(spec, options=options), self.runner.registry) as usual:
                result = examine(made, usual, self.producer, [level])
            self.states |= {o.target: state_of(o) for o in result.outcomes}

    def failing(self, levels: Sequence[str]) -> list[str]:
        return [level for level, answer in self.answers(levels).items() if answer == FAILS]

    def accused(self, level: str) -> tuple[str, tuple[str, ...], list[str]]:
        """Shortens a level that fails and looks for the cause within it.

        Returns: the level with only the steps that the failure needs; the options among them, or
        else the passes, that are to blame; and a sentence for each result.
        """
        drawn, level = Pipeline.parse(level), shorten_pipeline(level, self.failing)
        steps, sentences = Pipeline.parse(level), []
        if len(steps.steps) < len(drawn.steps):
            sentences.append(
                f"of the {len(drawn.steps)} steps of {drawn}, {level} has what it takes"
            )
        if steps.options:
            return level, steps.options, sentences
        fired = self.runner.fired_passes(self.case.source(self.runner.reads), level)
        passes = self.culprits(level, fired) if fired else ()
        return level, passes or steps.steps, [*sentences, _ablated(level, fired, passes)]

    def cured(self, level: str, without: Collection[str]) -> bool:
        """Whether the level does well without these passes; keeps the run as a row."""
        answer = self.answers([level], without)[level]
        self.rows.append(Ablation(tuple(without), answer))
        return answer in self.good

    def culprits(self, level: str, passes: Sequence[str]) -> tuple[str, ...]:
        """Returns the last pass that cures the level alone, or else a minimal set that does.

        passes: in the order in which they run. Of several that cure alone, the last is to blame:
        the result is still right after all passes before it, so an earlier one only prepares the
        model that the last one then breaks.
        """
        for name in list(reversed(passes))[:MOST_RUNS]:
            if self.cured(level, [name]):
                return (name,)
        if len(passes) < 2 or not self.cured(level, passes):
            return ()
        needed = list(passes)
        for name in passes:
            rest = [n for n in needed if n != name]
            if len(self.rows) < 2 * MOST_RUNS and rest and self.cured(level, rest):
                needed = rest
        return tuple(needed)


def localise(
    case: TestCase, failure: Failure, runner: BackendRunner, producer: ProducerClient
) -> Localisation | None:
    """Runs the experiments on the backend of `runner`.

    Returns: None if the failure does not occur again.
    Raises: RunnerError; the errors of the producer.
    """
    search = _Search(case, failure, runner, producer)
    every = runner.backend.having([*runner.backend.levels, *failure.levels])
    levels = search.answers(every)
    failing = [level for level, answer in levels.items() if answer == FAILS]
    if not failing:
        return None
    answers = ", ".join(f"{level}: {answer}" for level, answer in levels.items())
    accused = search.blame(failing)
    level, passes, sentences = _in_pipeline(search, levels, failing[0], accused)
    evidence = [f"levels of {runner.name}: {answers}", *sentences]
    operator = value = ""
    if failure.kind is OutcomeKind.MISMATCH:
        operator, value, sentence = _first_wrong(case, level, runner, producer)
        evidence.append(sentence)
    accused, sentences = _in_other_forms(search, failing, level, accused)
    evidence += sentences
    party = _party(failure, accused, passes, runner.backend)
    return Localisation(
        levels,
        level,
        party,
        tuple(evidence),
        passes,
        tuple(search.rows),
        operator,
        value,
        "" if runner.reads == ONNX else runner.code(case.source(runner.reads)),
    )


def _in_pipeline(
    search: _Search, levels: Mapping[str, str], level: str, accused: Blame
) -> tuple[str, tuple[str, ...], list[str]]:
    """Shortens the failing level and finds its guilty passes if the pipeline can be to blame.

    levels: level -> answer. Returns: as `_Search.accused`; the level itself, no passes and no
    sentences if the failure does not depend on the pipeline.
    """
    right = accused.right if accused.coordinate is Coordinate.PIPELINE else None
    drawn = Pipeline.parse(level)
    if not (right or drawn.steps):
        return level, (), []
    # The steps are not to blame for a failure that occurs without them, too.
    search.good |= {levels[right.level if right else drawn.level]}
    return search.accused(level)


def _in_other_forms(
    search: _Search, failing: Collection[str], level: str, accused: Blame
) -> tuple[Blame, list[str]]:
    """Runs other forms of the model while the whole compiler is accused.

    Returns: the blame that follows, and a sentence for each result.
    """
    sentences = []
    if accused.coordinate is Coordinate.COMPILER and search.form not in OWN_FORMS:
        search.other_forms(level)
        accused = search.blame(failing)
        sentences.append(accused.evidence)
    if accused.coordinate is Coordinate.COMPILER and search.form in (MODULE, EXPORTED):
        search.usual_form(level)
        accused = search.blame(failing)
        sentences.append(accused.evidence)
    exporter = search.case.exporter
    if accused.coordinate is Coordinate.FORM and (fault := _invalid(search.case, search.failure)):
        sentences.append(f"the checker of ONNX rejects what {exporter} wrote: {fault}")
    return accused, sentences


def same_error(candidate: Failure, wanted: Failure) -> bool:
    """Whether two failures agree in kind, stage and message; levels and operators may differ."""
    if (candidate.kind, candidate.stage) != (wanted.kind, wanted.stage):
        return False
    if candidate.kind is OutcomeKind.MISMATCH:
        return True
    return _error(candidate.signature.details) == _error(wanted.signature.details)


def _error(details: Details) -> tuple[str, str, str]:
    if not isinstance(details, ErrorDetails | RefusalDetails):
        return "", "", ""
    return details.error or "", details.signal or "", details.message or ""


def _ablated(level: str, fired: Sequence[str] | None, passes: Sequence[str]) -> str:
    if fired is None:
        return "the backend does not tell which passes run"
    if len(passes) == 1:
        return f"{level} does not fail without {passes[0]}, one of {len(fired)} passes tried"
    if passes:
        return f"{level} stops failing only without all of {', '.join(passes)}"
    return f"none of {len(fired)} passes that may be switched off at {level} is the cause"


def _first_wrong(
    case: TestCase, level: str, runner: BackendRunner, producer: ProducerClient
) -> tuple[str, str, str]:
    """Returns the operator and the name of the first wrong value, and a sentence.

    The first two are "" if the model cannot be exported with every value as an output, or if it is
    right then.
    """
    try:
        exposed = producer.expose(case)
    except ProducerError:
        return "", "", "the model cannot be exported with every value as an output"
    result = examine(exposed, runner, producer, [level])
    (outcome,) = result.outcomes
    order = [name for node in exposed.graph.nodes for name in node.outputs]
    if wrong := first_wrong(result.verdict, [outcome.target], order):
        operator = exposed.graph.makers[wrong.output].op
        sentence = f"with every value as an output, the first wrong one is {wrong.output}, "
        return operator, wrong.output, f"{sentence}computed by {operator}"
    if not outcome.ok:
        return "", "", f"with every value as an output: {outcome.kind} in {outcome.stage}"
    return "", "", "with every value as an output nothing is wrong: it takes a fusion"


def _invalid(case: TestCase, failure: Failure) -> str:
    """Returns the message of ONNX's checker about an exported model that a backend refuses.

    Returns "" if the model is valid, was not refused, or was written by nnfuzz itself: reduction
    prefers that form where the failure stays, so the exporter is then not in question.
    """
    refused = failure.stage in (Stage.IMPORT, Stage.COMPILE)
    if case.exporter in OWN_FORMS or failure.kind is not OutcomeKind.EXCEPTION or not refused:
        return ""
    return invalid(case.model)


def _party(failure: Failure, accused: Blame, passes: Sequence[str], backend: type[Backend]) -> str:
    """Returns the accused component; the stage names the part of a compiler that raised."""
    if passes and all("=" in name for name in passes):
        return f"option {', '.join(passes)}"
    if passes:
        return f"{Blame(Coordinate.PIPELINE).accused} ({', '.join(passes)})"
    if accused.right and accused.right.level == backend.baseline:
        return _PARTS.get(backend.compiling, accused.accused)
    if accused.coordinate is not Coordinate.COMPILER or accused.importer:
        return accused.accused
    if failure.stage is Stage.COMPARE:
        return accused.accused
    return _PARTS.get(failure.stage, "kernel or runtime")


_PARTS = {
    Stage.EXPORT: "exporter",
    Stage.TRANSFORM: "optimiser",
    Stage.IMPORT: "importer",
    Stage.COMPILE: "importer or code generation",
}
"""Stage -> the component that works in it."""


def shorten_pipeline(text: str, failing: Failing) -> str:
    """A failing pipeline with one of its steps alone if that fails, too; else without those that
    can be left out, one after the other, in as many runs as there are steps.
    """
    pipeline = Pipeline.parse(text)
    if len(pipeline.steps) < 2:
        return text
    alone = [str(Pipeline(pipeline.level, (step,))) for step in pipeline.steps]
    bad = failing(alone)
    if one := next((text for text in alone if text in bad), ""):
        return one
    steps = list(pipeline.steps)
    for step in pipeline.steps:
        fewer = Pipeline(pipeline.level, tuple(other for other in steps if other != step))
        if len(steps) > 2 and failing([str(fewer)]):
            steps.remove(step)
    return str(Pipeline(pipeline.level, tuple(steps)))
