"""Regimes of magnitude: inputs for behaviour that random numbers around 1 never cause.

Examples are ties of Round, sums that lose small terms, exponentials that overflow inside of a
stable formula, and subnormal numbers. Elements have few significant bits if possible, so that
arithmetic with them is exact and decisions stay comparable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import Range
from nnfuzz.operators.rounding import underflow


class Regime(Enum):
    """The distribution of the numbers of a tensor."""

    INTEGERS = "small integers"
    TIES = "halves"
    LARGE = "hundreds and more"
    TINY = "about the least normal number"
    SPREAD = "many orders of magnitude"


REGIMES: tuple[tuple[float, Regime | None], ...] = (
    (0.16, Regime.INTEGERS),
    (0.16, Regime.TIES),
    (0.17, Regime.LARGE),
    (0.18, Regime.TINY),
    (0.15, Regime.SPREAD),
    (0.18, None),
)
"""Probability of each regime; None stands for plain draws, which violated graphs fall back to."""
HUNDREDS = 100.0
"""Least magnitude of a large number."""
MOST_BITS = 64
"""Greatest exponent of two of LARGE."""
ORDERS = 20
"""Greatest difference between the binary exponents of SPREAD."""


def in_regime(
    regime: Regime, rng: np.random.Generator, type_: TensorType, bounds: Range
) -> np.ndarray | None:
    """Floats of the shape within closed bounds (infinite: none), in float64; None if none fit."""
    values = _DRAWN[regime](rng, type_.sizes, type_.dtype, bounds)
    if values is None or not values.size:
        return values
    least, most = bounds
    inside = (values >= least) & (values <= most)
    if not inside.all():
        if not inside.any():
            return None
        values = np.where(inside, values, rng.choice(values[inside], values.shape))
    return values


Shape = tuple[int, ...]
FARTHEST = 2**40
"""The largest multiple of a unit that is drawn."""


def _integers(rng: np.random.Generator, shape: Shape, dtype: DType, b: Range) -> np.ndarray | None:
    return _multiples(rng, shape, b, 1.0, 8)


def _ties(rng: np.random.Generator, shape: Shape, dtype: DType, b: Range) -> np.ndarray | None:
    drawn = _multiples(rng, shape, b, 0.5, 16)
    if drawn is not None and (drawn == np.rint(drawn)).all():
        return None
    return drawn


def _multiples(
    rng: np.random.Generator, shape: Shape, bounds: Range, unit: float, far: int
) -> np.ndarray | None:
    """Multiples of `unit` near zero, or near the bound closest to zero."""
    lower, upper = (min(max(bound / unit, -FARTHEST), FARTHEST) for bound in bounds)
    least, most = math.ceil(lower), math.floor(upper)
    middle = min(max(0, least), most)
    least, most = max(least, middle - far), min(most, middle + far)
    if least >= most:
        return None
    return rng.integers(least, most, shape, endpoint=True) * unit


def _large(rng: np.random.Generator, shape: Shape, dtype: DType, b: Range) -> np.ndarray | None:
    """Integers of few bits times a power of two; large ones are rare to keep graphs finite."""
    bits = int(rng.integers(2, 5))
    room = math.log2(min(dtype.limits[1], max(-b[0], b[1], 1.0)))
    first = math.log2(HUNDREDS) - bits + 1
    last = min(math.log2(dtype.limits[1]) / 2, room - bits, MOST_BITS)
    if last < first:
        return None
    unit = 2.0 ** int(first + (last - first) * rng.random() ** 3)
    most = 2**bits - 1
    return rng.integers(-most, most, shape, endpoint=True) * unit


def _tiny(rng: np.random.Generator, shape: Shape, dtype: DType, b: Range) -> np.ndarray | None:
    """Numbers around the least normal one, on both sides of it."""
    if b[0] > 0 or b[1] < 0:
        return None
    unit = _least(dtype)
    exponents = rng.integers(-3, 4, shape) if _has_subnormals(dtype) else rng.integers(0, 4, shape)
    return np.ldexp(unit * _signs(rng, shape), exponents)


def _spread(rng: np.random.Generator, shape: Shape, dtype: DType, b: Range) -> np.ndarray | None:
    far = min(math.log2(dtype.limits[1]) / 2, ORDERS / 2)
    top = min(far, math.log2(max(-b[0], b[1], 2.0**-60)))
    low = max(math.ceil(top - ORDERS), math.ceil(math.log2(_least(dtype))))
    if math.floor(top) <= low:
        return None
    exponents = rng.integers(low, math.floor(top), shape, endpoint=True)
    return np.ldexp(_signs(rng, shape), exponents)


def _signs(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    return rng.integers(0, 2, shape) * 2.0 - 1.0


def _least(dtype: DType) -> float:
    """The least normal number, or the one below which results may be flushed to zero."""
    return max(underflow(dtype.unit_roundoff), 2.0**-14 if dtype is DType.FLOAT16 else 0.0)


def _has_subnormals(dtype: DType) -> bool:
    return dtype in {DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64}


_DRAWN: dict[Regime, Callable[[np.random.Generator, Shape, DType, Range], np.ndarray | None]] = {
    Regime.INTEGERS: _integers,
    Regime.TIES: _ties,
    Regime.LARGE: _large,
    Regime.TINY: _tiny,
    Regime.SPREAD: _spread,
}
