"""How much a wrong result tells of how it came about, in bits.

A hypothesis that predicts every element may do so by chance. What differs from the right result in
one element by one, or is 0, fits many hypotheses; several distinct numbers fit few.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.ir.dtypes import plain
from nnfuzz.triage.hypothesis import Hypothesis

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Envelope

SPARE_BITS = 3.0
"""That one of the hypotheses that were tried agrees by chance has a probability of 1/8 at most."""
FLOAT_BITS, FORM_BITS = 10.0, 8.0
"""Of a float that nothing but the computation suggests (the mantissa of float16, the shortest type
of which all digits are compared), and of a shape or dtype."""
MOST_SHOWN = 64

Shown = tuple[str, str, str]
"""What kind of number differs (and where, of those that have two values), the right one, and the
one that is there."""


@dataclass(frozen=True)
class Explained:
    """What holds of some hypotheses (nnfuzz.reduction.explain), with the family of each, how many
    of them were tried, what is wrong in which ways, and the family of an operator of many operands.
    """

    explanations: Mapping[Hypothesis, Hypothesis]
    tried: int
    shown: list[Shown]
    operands: Hypothesis | None = None


def shown(truth: Mapping[str, Envelope], outputs: Mapping[str, np.ndarray]) -> list[Shown]:
    """The distinct ways in which elements differ, at most MOST_SHOWN."""
    found = (pair for name, right in truth.items() for pair in _shown(name, right, outputs))
    return sorted(set(found))[:MOST_SHOWN]


def _shown(name: str, right: Envelope, outputs: Mapping[str, np.ndarray]) -> Iterator[Shown]:
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


def enough(pairs: Collection[Shown], tried: int) -> bool:
    """Whether some differences are too many for a hypothesis, one of those that were tried, to
    predict all of them by chance.
    """
    return bits(pairs) >= math.log2(max(1, tried)) + SPARE_BITS


def bits(pairs: Collection[Shown]) -> float:
    """What it takes to predict some differences: as much as numbers of that kind may have values.

    0, 1, what is next to the right number and its negative are guessed: they are told apart only
    from the other numbers that occur.
    """
    there = {text for kind, *texts in pairs if kind in ("float", "integer") for text in texts}
    guess = math.log2(max(2, len(there)))
    return sum(_bits(pair, guess) for pair in pairs)


def _bits(pair: Shown, guess: float) -> float:
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
