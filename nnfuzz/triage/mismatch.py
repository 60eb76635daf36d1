"""The wrong outputs of a verdict, and the numbers that they were computed from."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from nnfuzz.backend.target import Target
from nnfuzz.compare.mismatch import Mismatch, Number, Verdict
from nnfuzz.ir.dtypes import DType, is_floating
from nnfuzz.testcase.case import TestCase

_EXACT = float(1 << 24)
"""Integers up to here survive a float32."""


@dataclass(frozen=True, kw_only=True)
class WrongOutput(Mismatch):
    """One wrong output of one target."""

    target: Target


def wrong_outputs(verdict: Verdict | None, habitual: bool = False) -> list[WrongOutput]:
    """Every wrong output of a verdict, in its order; none without a verdict. Where a compiler's
    habits account for some of a target's, the others are what is wrong.

    habitual: whether those that habits account for are among them.
    """
    return [
        WrongOutput(target=target, **{f.name: getattr(m, f.name) for f in fields(Mismatch)})
        for target, listed in (verdict.mismatches.items() if verdict else ())
        for m in listed
        if verdict and (habitual or m.output not in verdict.habitual.get(target, ()))
    ]


def first_wrong(
    verdict: Verdict | None, targets: Collection[Target], order: Sequence[str]
) -> WrongOutput | None:
    """Of some targets, the wrong output that comes first in `order`."""
    place = {name: i for i, name in enumerate(order)}
    candidates = [w for w in wrong_outputs(verdict) if w.target in targets]
    return min(candidates, key=lambda w: place.get(w.output, len(place)), default=None)


def few_digits(wrong: WrongOutput, dtype: str) -> bool:
    """Whether the worst element is right in a third of its dtype's digits: a matter of precision.

    A value computed in the next narrower dtype is. So is a small float that is right in its first
    digit, if its error is small compared with 1: a computation near 1 loses the digits that cancel.
    For integers, only beyond what float32 holds.
    """
    try:
        kind = DType(dtype)
        expected, actual = map(float, _worst(wrong))
    except (ValueError, TypeError):
        return False
    if not (math.isfinite(expected) and math.isfinite(actual)) or kind.is_bool:
        return False
    if kind.is_int and abs(expected) < _EXACT:
        return False
    unit, error = kind.unit_roundoff or 1.0 / kind.limits[1], abs(actual - expected)
    cancelled = kind.is_float and error <= min(unit ** (2 / 3), abs(expected) / 2)
    return cancelled or error <= unit ** (1 / 3) * abs(expected)


def saturated(wrong: WrongOutput, dtype: str) -> bool:
    """Whether the worst element is at the end of a wide integer's range, where another number
    belongs: what becomes of a large float that is converted back.
    """
    try:
        kind = DType(dtype)
        actual = int(_worst(wrong)[1])
    except (ValueError, TypeError):
        return False
    return kind.is_int and abs(actual) > _EXACT and actual in map(int, kind.limits)


def swamped(wrong: WrongOutput, dtype: str, largest: float) -> bool:
    """Whether NaN or Inf is in the place of a number, beside a large float that the failure needs:
    where 1 is added to the square of that, a third of the digits of 1 is left at most. What loses
    some of them loses all at worst.
    """
    try:
        unit, expected = DType(dtype).unit_roundoff, float(_worst(wrong)[0])
    except ValueError:
        return False
    if wrong.kind != "nonfinite" or not math.isfinite(expected):
        return False
    return bool(unit) and largest >= unit ** (-1 / 3)


def _worst(wrong: WrongOutput) -> tuple[Number, Number]:
    """What was expected of the worst element, and what it is; no numbers without one."""
    return (wrong.worst.expected, wrong.worst.actual) if wrong.worst else ("", "")


def largest_operand(case: TestCase) -> float:
    """The largest magnitude of a finite float that a model of a single operator reads; 0 if none
    does, and of several operators.
    """
    nodes = case.graph.nodes
    if len(nodes) != 1 or not case.model:
        return 0.0
    arrays = (a.astype(float) for a in _read(case, nodes[0].inputs) if is_floating(a))
    return max((float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in arrays), default=0.0)


def _read(case: TestCase, names: Collection[str]) -> Iterator[np.ndarray]:
    """What a node reads from inputs, then all constants of the model: some are its attributes."""
    import onnx
    from onnx import numpy_helper

    yield from (case.inputs[name] for name in names if name in case.inputs)
    graph = onnx.load_model_from_string(case.model).graph
    yield from map(numpy_helper.to_array, graph.initializer)
