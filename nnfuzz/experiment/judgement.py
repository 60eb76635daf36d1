"""Decisions about a test case, by its outcomes, the cheap check and the judge's verdict.

Pure functions over values; the envelope itself is built in a producer's worker.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from nnfuzz.backend.agreement import beyond, close, other_zeros
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.compare.flip import PYTORCH, Blame, State, blame, state_of
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.sandbox.wire import is_one
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import Failure, HabitDetails

OPAQUE = "Opaque"
"""The name of nnfuzz.operators.foreign.Opaque in a graph."""
BLIND = "the model without the fault gets no further"
"""The message of an outcome that does not name the fault for which a model must be refused."""


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
    return blame(states, failure.targets[0].compiler, failure.targets, levels)


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
