"""Random arrays for inputs and weights.

Some arrays come from a regime: a distribution that causes behaviour which numbers around 1 never
cause, such as ties of Round, sums that lose small terms, overflow inside of a stable formula, and
subnormal numbers. Elements have few significant bits where possible, so that arithmetic is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeVar

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import ANY_RANGE, Range
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
"""Probability of each regime. None stands for ordinary draws, as after a failed attempt."""
HUNDREDS = 100.0
"""Least magnitude of a large number."""
MOST_BITS = 64
"""Greatest exponent of two in LARGE."""
ORDERS = 20
"""Greatest difference between two binary exponents in SPREAD."""


def in_regime(
    regime: Regime, rng: np.random.Generator, type_: TensorType, bounds: Range
) -> np.ndarray | None:
    """Float64 array of the type's shape with elements in the closed range; None if no draw fits."""
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
"""Greatest multiple of a unit that is drawn."""


def _wholes(rng: np.random.Generator, shape: Shape, dtype: DType, b: Range) -> np.ndarray | None:
    return _multiples(rng, shape, b, 1.0, 8)


def _ties(rng: np.random.Generator, shape: Shape, dtype: DType, b: Range) -> np.ndarray | None:
    drawn = _multiples(rng, shape, b, 0.5, 16)
    if drawn is not None and (drawn == np.rint(drawn)).all():
        return None
    return drawn


def _multiples(
    rng: np.random.Generator, shape: Shape, bounds: Range, unit: float, far: int
) -> np.ndarray | None:
    """Multiples of `unit` near zero, or near the bound that is closest to zero."""
    lower, upper = (min(max(bound / unit, -FARTHEST), FARTHEST) for bound in bounds)
    least, most = math.ceil(lower), math.floor(upper)
    middle = min(max(0, least), most)
    least, most = max(least, middle - far), min(most, middle + far)
    if least >= most:
        return None
    return rng.integers(least, most, shape, endpoint=True) * unit


def _large(rng: np.random.Generator, shape: Shape, dtype: DType, b: Range) -> np.ndarray | None:
    """Integers of few bits times a power of two. Large powers are rare, to keep results finite."""
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
    """Numbers around the least normal number, smaller ones included."""
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
    """The least normal number, or a larger one below which compilers may flush results to zero."""
    return max(underflow(dtype.unit_roundoff), 2.0**-14 if dtype is DType.FLOAT16 else 0.0)


def _has_subnormals(dtype: DType) -> bool:
    return dtype in {DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64}


_DRAWN: dict[Regime, Callable[[np.random.Generator, Shape, DType, Range], np.ndarray | None]] = {
    Regime.INTEGERS: _wholes,
    Regime.TIES: _ties,
    Regime.LARGE: _large,
    Regime.TINY: _tiny,
    Regime.SPREAD: _spread,
}


T = TypeVar("T")
Style = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def _uniform(lo: float, hi: float) -> Style:
    def style(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return (rng.random(shape, np.float32) * np.float32(hi - lo)) + np.float32(lo)

    return style


FLOAT_STYLES: tuple[tuple[float, Style], ...] = (
    (0.40, _normal),
    (0.30, _uniform(-3, 3)),
    (0.20, _uniform(0.1, 2)),
    (0.07, _uniform(-0.5, 0.5)),
    (0.03, _uniform(-20, 20)),
)
SCALES = (1.0, 1.0, 0.5, 1.0, 0.25, 2.0, 0.1, 1.0)
"""Scale of the numbers, by attempt."""
INTEGER_RANGES: tuple[tuple[float, Range | None], ...] = (
    (0.20, (-8, 8)),
    (0.12, (1, 9)),
    (0.16, (-100, 100)),
    (0.07, (0, 3)),
    (0.20, None),
    (0.10, (-(2.0**30), 2.0**30)),
    (0.15, (-math.inf, math.inf)),
)
"""(probability, range) of integers; None means close to one of `BOUNDARIES`."""
BOUNDARIES = tuple(
    sign * 2**bits for bits in (7, 8, 11, 15, 16, 24, 31, 32, 53, 62) for sign in (1, -1)
)
"""Powers of two at which a narrower dtype starts to lose integers."""
GREATEST = 10
"""A boundary is drawn from this many of the greatest ones in the range."""
BESIDE = 5
"""Greatest distance of an integer from its boundary."""
TAME_INTEGERS: tuple[tuple[float, Range], ...] = ((0.6, (1, 9)), (0.4, (-8, 8)))
"""Replaces INTEGER_RANGES after a failed attempt."""
HALF_LINE = 3.0
"""Length of the drawn interval if the range is unbounded on one side."""


def draw_array(
    rng: np.random.Generator, type_: TensorType, hint: Range | None, restart: int
) -> np.ndarray:
    """An array of a concrete type, inside of the range `hint` if there is one.

    hint: closed range in which the nodes that read the value are valid. restart: number of failed
    attempts; later attempts differ in scale, and use neither huge integers nor regimes.
    """
    shape = type_.sizes
    if type_.dtype.is_bool:
        return _booleans(rng, shape, hint)
    if type_.dtype.is_int:
        return _integers(rng, type_.dtype, shape, hint, restart)
    regime = _pick(rng, REGIMES) if restart == 0 else None
    values = None if regime is None else in_regime(regime, rng, type_, hint or ANY_RANGE)
    if values is None:
        values = _plain(rng, shape, hint, restart)
    return np.asarray(values, type_.dtype.numpy)


def _plain(
    rng: np.random.Generator, shape: tuple[int, ...], hint: Range | None, restart: int
) -> np.ndarray:
    if hint is not None:
        return _within(rng, shape, hint)
    values = _pick(rng, FLOAT_STYLES)(rng, shape)
    scale = SCALES[restart % len(SCALES)]
    return np.asarray(values if scale == 1.0 else values * scale)


def _pick(rng: np.random.Generator, options: Sequence[tuple[float, T]]) -> T:
    point = rng.random()
    for weight, option in options:
        point -= weight
        if point < 0:
            return option
    return options[0][1]


def _within(rng: np.random.Generator, shape: tuple[int, ...], hint: Range) -> np.ndarray:
    """Uniform numbers in a range. An unbounded side ends near the other side or near zero."""
    lo, hi = hint
    if lo == -math.inf:
        lo = min(-HALF_LINE, hi - HALF_LINE)
    if hi == math.inf:
        hi = max(HALF_LINE, lo + HALF_LINE)
    return np.asarray(rng.random(shape) * (hi - lo) + lo)


def _booleans(rng: np.random.Generator, shape: tuple[int, ...], hint: Range | None) -> np.ndarray:
    lo, hi = hint or (0, 1)
    if lo > 0 or hi < 1:
        return np.full(shape, lo > 0)
    share = rng.choice((0.5, 0.2, 0.8))
    return _varied(rng, np.asarray(rng.random(shape) < share), 0, 1)


def _integers(
    rng: np.random.Generator,
    dtype: DType,
    shape: tuple[int, ...],
    hint: Range | None,
    restart: int,
) -> np.ndarray:
    least, most = (int(end) for end in dtype.limits)
    chosen = _pick(rng, INTEGER_RANGES) if restart == 0 else _pick(rng, TAME_INTEGERS)
    if hint is not None:
        least = max(least, math.ceil(hint[0])) if hint[0] > -math.inf else least
        most = min(most, math.floor(hint[1])) if hint[1] < math.inf else most
    beside = None if chosen is not None else _beside_power(rng, shape, least, most)
    if beside is not None:
        return _varied(rng, beside, int(least), int(most)).astype(dtype.numpy)
    lo, hi = chosen or TAME_INTEGERS[0][1]
    lo, hi = max(lo, least), min(hi, most)
    if lo >= hi:
        lo, hi = least, min(most, least + 8)
    lo, hi = int(lo), max(int(lo), int(hi))
    kind = dtype.numpy if dtype.native else np.int64
    drawn = _varied(rng, np.asarray(rng.integers(lo, hi, shape, kind, endpoint=True)), lo, hi)
    return drawn.astype(dtype.numpy, copy=False)


def _beside_power(
    rng: np.random.Generator, shape: tuple[int, ...], least: int, most: int
) -> np.ndarray | None:
    """int64 values close to one of `BOUNDARIES`, of both signs if the range allows it; None if the
    range contains no boundary."""
    inside = [power for power in BOUNDARIES if least <= power <= most]
    if not inside:
        return None
    power = inside[-int(rng.integers(1, min(GREATEST, len(inside)), endpoint=True))]
    signs = (1, -1) if -power in inside else (1,)
    far = rng.integers(-BESIDE, BESIDE, shape, endpoint=True)
    near = np.clip(power * rng.choice(signs, shape) + far, least, min(most, 2**63 - 1))
    return np.asarray(near)


def _varied(rng: np.random.Generator, values: np.ndarray, lo: int, hi: int) -> np.ndarray:
    """The array; if all elements are equal, one of them is changed, if the range allows it."""
    if values.size > 1 and hi > lo:
        first = values.flat[0]
        if (values == first).all():
            values.flat[int(rng.integers(values.size))] = lo if first != lo else hi
    return values
