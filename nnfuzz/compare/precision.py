"""Working dtypes: their constants, exact results and overflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.rounding import underflow


@dataclass(frozen=True, slots=True)
class Precision:
    """Constants of a working dtype.

    u: unit roundoff. tiny: where flushing to zero or gradual underflow act. greatest: the largest
    finite number. twice: 2 for float64, whose reference carries an error of its own.
    """

    dtype: torch.dtype
    u: float
    tiny: float
    greatest: float
    twice: float

    @classmethod
    def of(cls, dtype: DType) -> Precision:
        """The constants of a floating dtype."""
        u, twice = dtype.unit_roundoff, 2.0 if dtype is DType.FLOAT64 else 1.0
        return cls(dtype.torch, u, underflow(u), dtype.limits[1], twice)


PRECISIONS: Mapping[DType, Precision] = MappingProxyType(
    {d: Precision.of(d) for d in DType if d.is_float}
)


def representable(y: Tensor, precision: Precision, inputs: list[Interval]) -> Tensor:
    """Mask of elements of `y` (+ - * / sqrt of the inputs) that the working dtype holds exactly.

    Zero is, other numbers that may be flushed to zero are not. In float64 every result is; there
    the test is whether result and operands fit float32, so that no bit was lost.
    """
    if precision.dtype is not torch.float64:
        return (y.to(precision.dtype) == y) & ((y.abs() >= precision.tiny) | (y == 0))
    fits = y.float() == y
    for interval in inputs:
        fits = fits & (interval.lo.float() == interval.lo) & (interval.hi.float() == interval.hi)
    return fits


def is_single_integer(interval: Interval) -> bool:
    """Whether every element of an interval is a single integer."""
    return interval.exact and bool((interval.lo == interval.lo.round()).all())


def overflow_masked(interval: Interval, ref: Tensor, precision: Precision) -> Interval:
    """The interval with elements masked that may overflow the working dtype or are not a number."""
    greatest = precision.greatest
    if interval.any is None and bool(
        ((interval.lo >= -greatest) & (interval.hi <= greatest)).all()
    ):
        return interval
    bad = ~((interval.lo >= -greatest) & (interval.hi <= greatest))
    if interval.any is not None:
        bad = bad | interval.any
    # Masked elements get a tame number, so that they do not spoil their neighbours.
    tame = torch.nan_to_num(ref, 0.0, 0.0, 0.0).clamp(-greatest, greatest)
    lo = torch.where(bad, tame, interval.lo)
    return Interval(lo, lo if interval.exact else torch.where(bad, tame, interval.hi), bad)
