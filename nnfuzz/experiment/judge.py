"""The judge of one test case: which outputs are wrong, and which of its own verdicts it doubts."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from nnfuzz.backend.numeric import beyond, close, other_zeros
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import DIRECT, EXPORTED, MODULE, base_form
from nnfuzz.compare.flip import PYTORCH, Blame, Coordinate, State, blame, state_of
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.result import UNDEFINED, Event, Judging, Log, Plan
from nnfuzz.materialize.opsets import CALLED_DIRECT
from nnfuzz.sandbox.wire import is_one
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.client import ProducerClient, ProducerError
from nnfuzz.triage.signature import Failure, HabitDetails

OPAQUE = "Opaque"
"""The name of nnfuzz.operators.foreign.Opaque in a graph."""
BLIND = "the model without the fault gets no further"
"""The message of an outcome that does not name the fault for which a model must be refused."""
_LEVEL = re.compile(r"(\D*)(\d{1,3})")
"""A level that ends with a number."""


def doubtful(case: TestCase, outcomes: Iterable[Outcome]) -> list[str]:
    """The outputs that some ok outcome lacks or has farther than a few ULP from PyTorch's; at edges
    those as well in which a zero has another sign.
    """
    ran = [o.outputs for o in outcomes if o.outputs is not None]

    def agrees(name: str, array: np.ndarray, other: np.ndarray) -> bool:
        if not close(array, other):
            return False
        return not (other_zeros(array, other) and beyond({**case.inputs, **case.weights}))

    return [
        name
        for name, array in case.expected.items()
        if not all(name in outputs and agrees(name, array, outputs[name]) for outputs in ran)
    ]


def with_mismatches(outcomes: Iterable[Outcome], verdict: Verdict) -> list[Outcome]:
    """The outcomes, with `mismatch` in place of ok where the verdict says so; outputs are kept.

    A verdict that suspects the reference accuses no compiler.
    """
    if verdict.suspect_reference:
        return list(outcomes)
    return [
        replace(o, kind=OutcomeKind.MISMATCH, stage=Stage.COMPARE)
        if o.ok and verdict.mismatches.get(o.target)
        else o
        for o in outcomes
    ]


def with_nothing_compared(
    outcomes: Iterable[Outcome], verdict: Verdict, outputs: Collection[str]
) -> list[Outcome]:
    """The outcomes, with `not compared` in place of ok where no element of any output was compared.

    outputs: all names. Outputs that a verdict leaves out agree with PyTorch's values.
    """
    if verdict.compared or not all(name in verdict.comparable for name in outputs):
        return list(outcomes)
    return [
        replace(o, kind=OutcomeKind.NOT_COMPARED, stage=Stage.COMPARE, message=verdict.reason)
        if o.ok and o.outputs is not None
        else o
        for o in outcomes
    ]


def with_contradictions(outcomes: Iterable[Outcome], verdict: Verdict) -> list[Outcome]:
    """The outcomes, with `not compared` in place of ok where onnx.reference contradicts the verdict
    that a target is wrong.
    """
    return [
        replace(o, kind=OutcomeKind.NOT_COMPARED, stage=Stage.COMPARE, message=str(own[0]))
        if o.ok and (own := verdict.contradictions.get(o.target))
        else o
        for o in outcomes
    ]


def unknown_outputs(case: TestCase) -> list[str]:
    """The outputs behind an operator without a spec: onnx.reference alone has computed them, so
    that agreement with them is no comparison.
    """
    behind: set[str] = set()
    for node in case.graph.nodes:
        if node.op == OPAQUE or behind.intersection(node.inputs):
            behind.update(node.outputs)
    return [name for name in case.expected if name in behind]


def excused(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes; where a baseline is not right, all of its backend are `unsupported`: the
    program there is not the backend's own, and nothing is left to compare the other levels with.
    A baseline that says what it lacks keeps its words, from which campaigns learn.
    """
    calm = OutcomeKind.NOT_COMPARED
    faulty = {
        o.backend
        for o in outcomes
        if o.baseline and o.kind is not calm and state_of(o) is not State.RIGHT
    }
    return [
        replace(o, kind=OutcomeKind.UNSUPPORTED, message="the baseline is not right", outputs=None)
        if o.backend in faulty and not (o.baseline and o.kind is OutcomeKind.UNSUPPORTED)
        else o
        for o in outcomes
    ]


def lost(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes. A level that refuses a valid model fails if a lower level computes it, since
    optimisation may lose no model.
    """
    computed = [o for o in outcomes if o.kind in (OutcomeKind.OK, OutcomeKind.MISMATCH)]
    return [
        replace(o, kind=OutcomeKind.EXCEPTION)
        if o.kind is OutcomeKind.UNSUPPORTED and any(_is_lower(low, o) for low in computed)
        else o
        for o in outcomes
    ]


def _is_lower(one: Outcome, other: Outcome) -> bool:
    """Whether one backend ran both, at levels whose names differ only in the number at the end, as
    O0 and O3 do, and `one` has the smaller number.
    """
    low, high = _LEVEL.fullmatch(one.level), _LEVEL.fullmatch(other.level)
    if one.backend != other.backend or low is None or high is None:
        return False
    return low[1] == high[1] and int(low[2]) < int(high[2])


def informed(outcomes: Iterable[Outcome], valid: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes of a model that must be refused; those are `unsupported` that say nothing of its
    fault, because the model without it gets no further on the same target.

    valid: its outcomes.
    """
    stages = [*Stage]
    reached = {o.target: stages.index(o.stage) for o in valid if not o.ok}
    return [
        replace(o, kind=OutcomeKind.UNSUPPORTED, message=BLIND)
        if o.kind is not OutcomeKind.ACCEPTED
        and reached.get(o.target, len(stages)) <= stages.index(o.stage)
        else o
        for o in outcomes
    ]


def accused_by(
    outcomes: Iterable[Outcome],
    verdict: Verdict | None,
    failure: Failure,
    levels: Sequence[str] = (),
) -> Blame:
    """The coordinate that a failure blames. outcomes: of every target. levels: of the failure's
    backend, the least optimised first; default: in the order of the outcomes.
    """
    judged = with_mismatches(outcomes, verdict) if verdict else list(outcomes)
    states = {o.target: state_of(o) for o in judged}
    if verdict and not isinstance(failure.signature.details, HabitDetails):
        # A target that only its habit makes wrong counts as right, and is a witness for the rest.
        habitual = verdict.explained.keys() & (states.keys() - {*failure.targets})
        states |= dict.fromkeys(habitual, State.RIGHT)
    if verdict and PYTORCH in verdict.mismatches:
        states[PYTORCH] = State.WRONG if verdict.mismatches[PYTORCH] else State.RIGHT
    found = blame(states, failure.targets[0].compiler, failure.targets, levels)
    called = verdict.calls.keys() & {*failure.targets} if verdict else ()
    if not called or found.coordinate not in (Coordinate.NONE, Coordinate.COMPILER):
        return found
    evidence = "called once, the same program is right"
    return replace(found, coordinate=Coordinate.CALLS, evidence=evidence)


def comparable_share(verdict: Verdict | None, outputs: Collection[str]) -> float | None:
    """Mean share of comparable elements over the outputs; None unless the verdict has them all.

    Where only the doubtful ones were looked at, it would be too low.
    """
    shares = verdict.comparable if verdict else {}
    whole = bool(shares) and all(name in shares for name in outputs)
    return fmean(shares.values()) if whole else None


def same_outputs(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes gave the same outputs, bit for bit."""
    if one.outputs is None or other.outputs is None or one.outputs.keys() != other.outputs.keys():
        return False
    return all(_digest(one.outputs[k]) == _digest(other.outputs[k]) for k in one.outputs)


def _digest(array: np.ndarray) -> tuple[object, ...]:
    distinct = array[(0,) * array.ndim] if is_one(array) else array
    return array.dtype, array.shape, zlib.crc32(np.ascontiguousarray(distinct).tobytes())


OWN_FORMS = (DIRECT, CALLED_DIRECT, MODULE, EXPORTED)
"""No exporter to ONNX is to blame: nnfuzz wrote the model, or the compiler reads another form."""


class Judge:
    """Judges the outputs of one test case, as its plan says.

    verdict: the latest one; None before there is one. agreed: whether all outputs are close to
    PyTorch's. seconds: that judging took.
    """

    def __init__(self, case: TestCase, plan: Plan, bench: ProducerClient, log: Log) -> None:
        self.case, self.plan, self.bench, self.log = case, plan, bench, log
        self.verdict: Verdict | None = None
        self.agreed, self.seconds = False, 0.0
        self._arbiters: list[Outcome] | None = None

    def compared(self, outcomes: list[Outcome]) -> list[Outcome]:
        """The outcomes, with `mismatch` or `not compared` in place of ok where the verdict says so.

        Raises: ProducerError.
        """
        ran = [o for o in outcomes if o.outputs is not None]
        agreeing, always = any(o.agrees for o in outcomes), self.plan.judging is Judging.ALWAYS
        if not (ran or agreeing) or self.plan.judging is Judging.NEVER:
            return outcomes
        start = time.perf_counter()
        doubts = doubtful(self.case, ran)
        self.agreed = not doubts
        self.seconds += time.perf_counter() - start
        asked = list(dict.fromkeys([*doubts, *unknown_outputs(self.case)]))
        if asked or always:
            self.verdict = self.of(ran, () if always else asked)
        if self.verdict is None:
            return outcomes
        judged = with_mismatches(outcomes, self.verdict)
        judged = with_nothing_compared(judged, self.verdict, self.case.expected)
        return with_contradictions(judged, self.verdict)

    def of(self, outcomes: Sequence[Outcome], names: Sequence[str] = ()) -> Verdict | None:
        """The verdict on outcomes; None if it suspects the reference, which then accuses nobody.

        names: of the outputs to look at; none for all. Raises: ProducerError.
        """
        verdict = self._asked(outcomes, names)
        if verdict.suspect_reference:
            self.log.fault("compare", "PyTorch and every backend differ from the reference")
            return None
        return self._uncontradicted(verdict, outcomes, names)

    def defined(self, found: list[Failure]) -> list[Failure]:
        """The failures without errors that a correct compiler may raise as well, since an operator
        may be undefined for the inputs. No input excuses a process that dies.
        """
        raised = OutcomeKind.EXCEPTION
        errors = [f for f in found if f.stage is Stage.EXECUTE and f.kind is raised]
        if not errors or not self.case.graph or self.case.fault:
            return found
        verdict = self.of(())
        if verdict is None or verdict.defined:
            return found
        self.log.events += [_undefined(failure) for failure in errors]
        return [failure for failure in found if failure not in errors]

    def computed_by_onnx(self, case: TestCase) -> list[Outcome]:
        """The outcome of onnx.reference on a model; none if it dies of it or has no end."""
        start = time.perf_counter()
        try:
            return [self.bench.reference(case)]
        except ProducerError:
            return []
        finally:
            self.seconds += time.perf_counter() - start

    def _asked(self, outcomes: Sequence[Outcome], names: Sequence[str]) -> Verdict:
        start = time.perf_counter()
        verdict = self.bench.judge(self.case, outcomes, names, self.plan.habits)
        self.seconds += time.perf_counter() - start
        return verdict

    def _uncontradicted(
        self, verdict: Verdict, outcomes: Sequence[Outcome], names: Sequence[str]
    ) -> Verdict:
        """The verdict without the mismatches that ONNX's reference evaluator contradicts. Each of
        these is a fault of nnfuzz until shown otherwise. The evaluator is asked only if an output
        is wrong.
        """
        mine = [o.target for o in outcomes]
        wrong = {m.output for t in mine for m in verdict.mismatches.get(t, ())}
        odd = {m.output for m in verdict.mismatches.get(PYTORCH, ())}
        arbiters = self._on_own_form() if wrong and self.plan.arbitrates else []
        if not (odd & wrong) and set(doubtful(self.case, arbiters)).isdisjoint(wrong):
            return verdict  # it agrees with PyTorch
        if not {o.target for o in arbiters}.issubset(mine):
            again = self._asked([*outcomes, *arbiters], names)
            verdict = again if again.contradictions else replace(verdict, waived=again.waived)
        for text in verdict.differences:
            self.log.fault("compare", text)
        return verdict

    def _on_own_form(self) -> list[Outcome]:
        """The outcome of onnx.reference on a model that no exporter wrote; none where there is no
        such model, or the evaluator cannot compute it.
        """
        if self._arbiters is None:
            try:
                own = base_form(self.case.exporter) in OWN_FORMS
                made = self.case if own else self.bench.lower(self.case)
                self._arbiters = [o for o in self.computed_by_onnx(made) if o.ok]
            except ProducerError:
                self._arbiters = []
        return self._arbiters


def _undefined(failure: Failure) -> Event:
    message = f"an operator may be out of its domain: {failure.signature.title}"
    return Event(UNDEFINED, failure.backend, failure.stage.value, message=message)
