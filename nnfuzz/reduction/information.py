"""Measures in bits how much evidence a wrong result is for a hypothesis about its cause.

A hypothesis that predicts every element may do so by chance. An element that is 0, or off by one,
fits many hypotheses; several distinct numbers fit few.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.ir.dtypes import plain
from nnfuzz.triage.keys import Hypothesis

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Envelope

SPARE_BITS = 3.0
"""With these, one of the tried hypotheses agrees by chance with a probability of at most 1/8."""
FLOAT_BITS, FORM_BITS = 10.0, 8.0
"""Bits of a float that only a computation yields (the mantissa of float16, the narrowest dtype
whose digits are all compared), and bits of a shape or dtype."""
MOST_DIFFERENCES = 64

Difference = tuple[str, str, str]
"""(kind, right number, actual number). kind: "float", "integer", "form" for a shape or dtype, or
"bool" with the output and the index, since booleans have only two values."""


@dataclass(frozen=True)
class Explained:
    """The hypotheses that predict a wrong result (nnfuzz.reduction.explain).

    explanations: hypothesis -> its family. tried: number of hypotheses that were tried.
    differences: see `differences`. operands: the family of an operator with many operands.
    """

    explanations: Mapping[Hypothesis, Hypothesis]
    tried: int
    differences: list[Difference]
    operands: Hypothesis | None = None


def differences(
    truth: Mapping[str, Envelope], outputs: Mapping[str, np.ndarray]
) -> list[Difference]:
    """The distinct ways in which elements differ, at most MOST_DIFFERENCES."""
    every = (pair for name, right in truth.items() for pair in _differences(name, right, outputs))
    return sorted(set(every))[:MOST_DIFFERENCES]


def _differences(
    name: str, right: Envelope, outputs: Mapping[str, np.ndarray]
) -> Iterator[Difference]:
    from nnfuzz.compare.verdict import mismatch, outside  # a judge's, with torch

    actual = outputs.get(name)
    if actual is None or actual.dtype != right.dtype.numpy or actual.shape != right.ref.shape:
        if wrong := mismatch(name, right, actual):
            yield "form", wrong.expected, wrong.actual
        return
    values = plain(actual)
    for index in np.argwhere(outside(right, actual)):
        place = tuple(index)
        kind = "float" if right.dtype.is_float else "integer"
        kind = f"bool {name}{list(map(int, place))}" if right.dtype.is_bool else kind
        yield kind, str(right.ref[place].item()), str(values[place].item())


def enough(pairs: Collection[Difference], tried: int) -> bool:
    """Whether it is unlikely that one of `tried` hypotheses predicts the differences by chance."""
    return bits(pairs) >= math.log2(max(1, tried)) + SPARE_BITS


def bits(pairs: Collection[Difference]) -> float:
    """The information in some differences: log2 of the number of values that each could have.

    0, 1, -1, the neighbours and the negative of the right number are easily guessed. They count as
    a choice between the numbers that occur in the differences, not between all numbers.
    """
    occurring = {text for kind, *texts in pairs if kind in ("float", "integer") for text in texts}
    guess = math.log2(max(2, len(occurring)))
    return sum(_bits(pair, guess) for pair in pairs)


def _bits(pair: Difference, guess: float) -> float:
    """guess: bits of a number that is easily guessed."""
    kind, expected, actual = pair
    if kind == "form":
        return FORM_BITS
    if kind.startswith("bool"):
        return 1.0
    right, there = float(expected), float(actual)
    small = abs(there) <= 1 and not _fraction(there)
    if small or not math.isfinite(there) or there in (right + 1, right - 1, -right):
        return guess
    return FLOAT_BITS if kind == "float" else max(guess, math.log2(abs(there)))


def _fraction(number: float) -> bool:
    return math.isfinite(number) and number != round(number)
