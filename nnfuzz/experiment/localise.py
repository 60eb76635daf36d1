"""Where a failure comes from: which levels, which optimiser pass, which operator; and so, who.

Experiments on one test case. Every level of the backend runs, and the pipeline that was drawn for
the case; of the first one that fails, the steps are found that it takes, and passes are switched
off until it no longer does; every value becomes an output, so that the first wrong
one names its operator; and the model runs in wider dtypes, which tells a lack of precision, or a
kernel of one dtype, from wrong logic.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import EXPORTED, MODULE, ONNX, Pipeline, Target
from nnfuzz.compare.flip import Blame, Coordinate, State, blame, state_of
from nnfuzz.experiment.blocking import ProducerJudge, examine
from nnfuzz.experiment.judgement import with_mismatches
from nnfuzz.experiment.pipelines import shorten_pipeline
from nnfuzz.experiment.procedure import OWN_FORMS
from nnfuzz.experiment.result import Result, form_of
from nnfuzz.materialize.validity import invalid
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.client import ProducerError
from nnfuzz.triage.identity import ErrorIdentity, Identity, RefusalIdentity
from nnfuzz.triage.mismatch import wrong_outputs
from nnfuzz.triage.signature import Failure, failures
from nnfuzz.triage.survey import patience

FAILS, CURED = "fails", "ok"
MOST_RUNS = 120
"""Of the backend, over all of the ablation."""


class Workbench(Protocol):
    """What a producer does for a search; ProducerClient is one."""

    @property
    def judge(self) -> ProducerJudge: ...
    def expose(self, case: TestCase) -> TestCase: ...
    def lift(self, case: TestCase) -> TestCase: ...
    def lower(self, case: TestCase) -> TestCase: ...
    def reference(self, case: TestCase) -> Outcome: ...


@dataclass(frozen=True)
class Ablation:
    """One row: passes switched off, and what came of it (FAILS, CURED or another outcome)."""

    without: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Localisation:
    """levels: outcome by level. level: the first that fails, with no more steps than it takes.
    passes: which, when switched off, cure it, or the options among the steps. operator, value: the
    first wrong value in topological order, and what computes it. party: the accused; evidence:
    sentences. module: the test case as source of PyTorch, where the backend reads that.
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
    """The experiments on one case, with a count of runs."""

    case: TestCase
    failure: Failure
    runner: BackendRunner
    producer: Workbench
    states: dict[Target, State] = field(default_factory=dict)
    rows: list[Ablation] = field(default_factory=list)
    good: frozenset[str] = frozenset({CURED})
    seconds: float = math.inf

    def answers(self, levels: Sequence[str], without: Collection[str] = ()) -> dict[str, str]:
        """By level: FAILS if in the way of the failure, CURED if all is well, else what happens."""
        how = levels, without, self.seconds
        result = examine(self.case, self.runner, self.producer.judge, *how)
        ended = [sum(o.seconds.values()) for o in result.outcomes if o.ok]
        if self.failure.kind is OutcomeKind.TIMEOUT and ended:
            self.seconds = patience(max(ended))
        self.states |= {o.target: state_of(o) for o in result.outcomes if not without}
        return {outcome.level: self._answer(outcome, result) for outcome in result.outcomes}

    def _answer(self, outcome: Outcome, result: Result) -> str:
        seen = failures([outcome], result.verdict, self.case.graph)
        if any(same_error(found, self.failure) for found in seen):
            return FAILS
        return str(seen[0].kind if seen else outcome.kind)

    @property
    def form(self) -> str:
        return form_of(self.case, self.runner)

    def blame(self, failing: Collection[str]) -> Blame:
        """Whom the targets that have run accuse. failing: levels."""
        compiler, levels = self.runner.spec.name, self.runner.backend.levels
        bad = [t for t in self.states if t.level in failing and t.form == self.form]
        return blame(self.states, compiler, bad, levels)

    def other_forms(self, level: str) -> None:
        """Runs the direct form, and has somebody else look at the exported one: ONNX's reference
        evaluator where values are wrong, else its checker.
        """
        with contextlib.suppress(ProducerError):
            made = self.producer.lower(self.case)
            result = examine(made, self.runner, self.producer.judge, [level])
            self.states |= {o.target: state_of(o) for o in result.outcomes}
        if self.failure.kind is not OutcomeKind.MISMATCH:
            found = State.IMPORT if _invalid(self.case, self.failure) else State.RIGHT
            self.states[Target("onnx.checker", form=self.case.exporter)] = found
            return
        with contextlib.suppress(ProducerError):
            arbiter = self.producer.reference(self.case)
            verdict = self.producer.judge(self.case, [arbiter]) if arbiter.ok else None
            (arbiter,) = with_mismatches([arbiter], verdict) if verdict else [arbiter]
            self.states[arbiter.target] = state_of(arbiter)

    def usual_form(self, level: str) -> None:
        """Runs what the backend reads unless an option says otherwise, ONNX in the direct form."""
        spec = self.runner.spec
        options = dict(spec.options)
        if options.pop(self.runner.backend.meant().get("form", ""), None) is None:
            return
        with contextlib.suppress(ProducerError):
            made = self.producer.lower(self.case)
            with BackendRunner(replace(spec, options=options), self.runner.registry) as usual:
                result = examine(made, usual, self.producer.judge, [level])
            self.states |= {o.target: state_of(o) for o in result.outcomes}

    def failing(self, levels: Sequence[str]) -> list[str]:
        return [level for level, answer in self.answers(levels).items() if answer == FAILS]

    def accused(self, level: str) -> tuple[str, tuple[str, ...], list[str]]:
        """The level with no more steps than it takes; which options among them, or else passes,
        are to blame; and sentences.
        """
        drawn, level = Pipeline.parse(level), shorten_pipeline(level, self.failing)
        steps, told = Pipeline.parse(level), []
        if len(steps.steps) < len(drawn.steps):
            told.append(f"of the {len(drawn.steps)} steps of {drawn}, {level} has what it takes")
        if steps.options:
            return level, steps.options, told
        fired = self.runner.fired_passes(self.case.source(self.runner.reads), level)
        passes = self.culprits(level, fired) if fired else ()
        return level, passes or steps.steps, [*told, _ablated(level, fired, passes)]

    def cured(self, level: str, without: Collection[str]) -> bool:
        answer = self.answers([level], without)[level]
        self.rows.append(Ablation(tuple(without), answer))
        return answer in self.good

    def culprits(self, level: str, passes: Sequence[str]) -> tuple[str, ...]:
        """The last pass that cures alone; else a set of passes none of which can be left out.

        passes: in the order in which they run. Without the last one that cures, all that ran
        before it leaves the result right: an earlier one that cures as well only makes what the
        last one then gets wrong.
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
    case: TestCase, failure: Failure, runner: BackendRunner, producer: Workbench
) -> Localisation | None:
    """Runs the experiments on the backend of `runner`; None if the failure does not occur, or if
    nobody knows who is right.

    Raises: RunnerError; whatever the producer raises.
    """
    if failure.kind is OutcomeKind.DISPUTED:
        return None
    search = _Search(case, failure, runner, producer)
    every = runner.backend.having([*runner.backend.levels, *failure.levels])
    levels = search.answers(every)
    failing = [level for level, answer in levels.items() if answer == FAILS]
    if not failing:
        return None
    level = failing[0]
    passes: tuple[str, ...] = ()
    evidence = [_swept(levels, runner.name)]
    accused = search.blame(failing)
    right = accused.right if accused.coordinate is Coordinate.PIPELINE else None
    drawn = Pipeline.parse(level)
    if right or drawn.steps:  # what fails in another way without the steps is not to blame for them
        search.good |= {levels[right.level if right else drawn.level]}
        level, passes, told = search.accused(level)
        evidence += told
    operator = value = ""
    if failure.kind is OutcomeKind.MISMATCH:
        operator, value, sentence = _first_wrong(case, level, runner, producer)
        evidence += [sentence, *_in_wider_dtypes(case, level, runner, producer)]
    if accused.coordinate is Coordinate.COMPILER and search.form not in OWN_FORMS:
        search.other_forms(level)
        accused = search.blame(failing)
        evidence.append(accused.evidence)
    if accused.coordinate is Coordinate.COMPILER and search.form in (MODULE, EXPORTED):
        search.usual_form(level)
        accused = search.blame(failing)
        evidence.append(accused.evidence)
    if accused.coordinate is Coordinate.FORM and (complaint := _invalid(case, failure)):
        evidence.append(f"the checker of ONNX rejects what {case.exporter} wrote: {complaint}")
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


def same_error(found: Failure, wanted: Failure) -> bool:
    """Whether two failures are of one kind, whatever the levels and operators."""
    if (found.kind, found.stage) != (wanted.kind, wanted.stage):
        return False
    if found.kind is OutcomeKind.MISMATCH:
        return True
    return _error(found.signature.identity) == _error(wanted.signature.identity)


def _error(identity: Identity) -> tuple[str, str, str]:
    if not isinstance(identity, ErrorIdentity | RefusalIdentity):
        return "", "", ""
    return identity.error or "", identity.signal or "", identity.message or ""


def _swept(levels: Mapping[str, str], backend: str) -> str:
    told = ", ".join(f"{level}: {answer}" for level, answer in levels.items())
    return f"levels of {backend}: {told}"


def _ablated(level: str, fired: Sequence[str] | None, passes: Sequence[str]) -> str:
    if fired is None:
        return "the backend does not tell which passes run"
    if len(passes) == 1:
        return f"{level} does not fail without {passes[0]}, one of {len(fired)} passes tried"
    if passes:
        return f"{level} stops failing only without all of {', '.join(passes)}"
    return f"none of {len(fired)} passes that may be switched off at {level} is the cause"


def _first_wrong(
    case: TestCase, level: str, runner: BackendRunner, producer: Workbench
) -> tuple[str, str, str]:
    """Operator and value, and a sentence; both empty if the error goes when values are outputs."""
    try:
        shown = producer.expose(case)
    except ProducerError:
        return "", "", "the model cannot be exported with every value as an output"
    result = examine(shown, runner, producer.judge, [level])
    (outcome,) = result.outcomes
    wrong = {m.output for m in wrong_outputs(result.verdict) if m.target == outcome.target}
    for node in shown.graph.nodes:
        for name in node.outputs:
            if name in wrong:
                sentence = f"with every value as an output, the first wrong one is {name}, "
                return node.op, name, sentence + f"computed by {node.op}"
    if not outcome.ok:
        return "", "", f"with every value as an output: {outcome.kind} in {outcome.stage}"
    return "", "", "with every value as an output nothing is wrong: it takes a fusion"


def _in_wider_dtypes(
    case: TestCase, level: str, runner: BackendRunner, producer: Workbench
) -> list[str]:
    """A sentence on the same model with wider floats; none if it has none, or none can be made."""
    try:
        shown = producer.lift(case)
    except ProducerError:
        return []
    (outcome,) = examine(shown, runner, producer.judge, [level]).outcomes
    then = shown.graph.dtypes
    pairs = {(old, then[name]) for name, old in case.graph.dtypes.items() if old != then[name]}
    told = " and ".join(f"{wide} for {narrow}" for narrow, wide in sorted(pairs))
    if outcome.kind is OutcomeKind.MISMATCH:
        return [f"with {told} the result is wrong as well"]
    if not outcome.ok:
        return [f"with {told}: {outcome.kind} in {outcome.stage}"]
    return [f"with {told} the result is right"]


def _invalid(case: TestCase, failure: Failure) -> str:
    """What ONNX's checker says of an exporter's model that a backend refuses; "" if it is valid.

    A model that fails as well when nnfuzz writes it itself is reduced in that form, and its
    exporter is no longer in question.
    """
    refused = failure.stage in (Stage.IMPORT, Stage.COMPILE)
    if case.exporter in OWN_FORMS or failure.kind is not OutcomeKind.EXCEPTION or not refused:
        return ""
    return invalid(case.model)


def _party(failure: Failure, accused: Blame, passes: Sequence[str], backend: type[Backend]) -> str:
    """The accused; of a compiler that raises, the stage says which part of it."""
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
"""What does the work of a stage."""
