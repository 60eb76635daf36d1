"""The wrong outputs of a verdict (without importing torch)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from itertools import combinations

from nnfuzz.backend.target import Target
from nnfuzz.compare.mismatch import Mismatch, Number, Verdict
from nnfuzz.ir.dtypes import DType

_EXACT = float(1 << 24)
"""Integers up to here survive a float32."""


@dataclass(frozen=True, kw_only=True)
class WrongOutput(Mismatch):
    """One wrong output of one target."""

    target: Target

    @property
    def backend(self) -> str:
        return self.target.compiler

    @property
    def level(self) -> str:
        return self.target.level


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

    A value computed in the next narrower dtype is. For integers, only beyond what float32 holds.
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
    unit = kind.unit_roundoff or 1.0 / kind.limits[1]
    return abs(actual - expected) <= unit ** (1 / 3) * abs(expected)


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


def compares_low_words(wrong: WrongOutput, dtype: str, operands: Sequence[int] = ()) -> bool:
    """Whether the worst element tells of a comparison of 64-bit integers that goes wrong where the
    high words are equal: it takes the low ones for signed. Some SIMD units lack the instruction.

    operands: of the worst element, if known (nnfuzz.triage.operands); it may be their sign that is
    wrong. Else a number that was expected and the one that was chosen tell. What a reduced failure
    has of large numbers it needs.
    """
    if operands:
        return any(_swapped(a, b) for a, b in combinations((0, *operands), 2))
    try:
        chosen = [int(value) for value in _worst(wrong)]
    except (ValueError, TypeError, OverflowError):
        return False
    return dtype in ("int64", "uint64") and _swapped(*chosen)


def _worst(wrong: WrongOutput) -> tuple[Number, Number]:
    """What was expected of the worst element, and what it is; no numbers without one."""
    return (wrong.worst.expected, wrong.worst.actual) if wrong.worst else ("", "")


def _swapped(a: int, b: int) -> bool:
    return a >> 32 == b >> 32 and (a < b) != (_low(a) < _low(b))


def _low(number: int) -> int:
    """The low word as a signed integer."""
    return (number & 0xFFFFFFFF) - ((number & 0x80000000) << 1)
