"""Interval arithmetic on tensors: bounds that hold for every correct implementation.

Each combinator maps input intervals to output intervals for one kind of function. None accounts for
rounding: `nnfuzz.compare.envelope` widens the results by the operator's `radius`. An operator gets
its combinator from `OpSpec.monotone`, from its family, or from its own `interval`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import torch
from torch import Tensor

Function = Callable[..., Tensor]


class Computing(Protocol):
    """The part of `OpSpec` that intervals need; OpSpec itself builds on this module."""

    @property
    def torch(self) -> Callable[..., Tensor | Any]: ...


@dataclass(frozen=True, eq=False, slots=True)
class Interval:
    """Elementwise interval `[lo, hi]` and the mask `any` of elements that can not be compared.

    lo, hi: float64 for floating values, the value's own dtype for integers and booleans; the same
    object where every element is exact. Masked elements hold finite numbers without a meaning.
    any: bool tensor of the same shape, or None when every element is comparable.
    """

    lo: Tensor
    hi: Tensor
    any: Tensor | None = None

    @property
    def exact(self) -> bool:
        """Whether every element is one known value, masked ones aside."""
        return self.lo is self.hi

    @property
    def unsure(self) -> Tensor:
        """Mask of the elements whose value is not known exactly."""
        unsure = self.lo != self.hi
        return unsure if self.any is None else unsure | self.any

    def mask(self) -> Tensor:
        """`any` as a tensor: all False if it is None."""
        return torch.zeros_like(self.lo, dtype=torch.bool) if self.any is None else self.any

    def masked(self, more: Tensor | None) -> Interval:
        """The interval with further elements masked."""
        if more is None:
            return self
        return Interval(self.lo, self.hi, more if self.any is None else self.any | more)

    def far(self) -> Tensor:
        """The end of greater absolute value, by element."""
        if self.exact or self.lo.dtype is torch.bool:
            return self.hi
        return torch.where(self.lo.abs() > self.hi.abs(), self.lo, self.hi)

    def magnitudes(self) -> tuple[Tensor, Tensor]:
        """Least and greatest absolute value inside."""
        a, b = self.lo.abs(), self.hi.abs()
        if self.exact:
            return a, a
        near = torch.where((self.lo < 0) & (self.hi > 0), 0.0, torch.minimum(a, b))
        return near.to(a.dtype), torch.maximum(a, b)


# -- masks --------------------------------------------------------------------------------------


def joined(*intervals: Interval, like: Tensor | None = None) -> Tensor | None:
    """The union of the masks of broadcasting inputs, expanded to the shape of `like`; or None."""
    masks = [b.any for b in intervals if b.any is not None]
    if not masks:
        return None
    mask = reduce(torch.logical_or, masks)
    if like is not None and mask.shape != like.shape:
        mask = mask.broadcast_to(like.shape)
    return mask


def reached(op: Computing, *intervals: Interval, weights: Sequence[int] = ()) -> Tensor | None:
    """Mask of the output elements that depend on a masked element, for a linear operator.

    Its coefficients must be >= 0. weights: positions of inputs that are multiplied with each other;
    ones stand in for their values.
    """
    return torch_mask(op.torch, *intervals, weights=weights)


def torch_mask(f: Function, *intervals: Interval, weights: Sequence[int] = ()) -> Tensor | None:
    """The mask of `reached`, for a function in place of an operator."""
    union = None
    for i, interval in enumerate(intervals):
        if interval.any is None:
            continue
        others = [
            torch.ones_like(b.lo, dtype=torch.float64)
            if i in weights and j in weights
            else torch.zeros_like(b.lo, dtype=torch.float64)
            for j, b in enumerate(intervals)
        ]
        others[i] = interval.any.double()
        mask = f(*others) > 0
        union = mask if union is None else union | mask
    return union


def everywhere(like: Tensor, condition: bool | Tensor = True) -> Tensor | None:
    """A mask of all elements of `like`; None if the condition holds for no element."""
    hit = bool(condition.any()) if isinstance(condition, Tensor) else condition
    return torch.ones_like(like, dtype=torch.bool) if hit else None


# -- combinators --------------------------------------------------------------------------------


def moved(op: Computing, *intervals: Interval) -> list[Interval]:
    """Outputs of an operator that only moves elements; masks move along."""
    los = outputs(op, *[b.lo for b in intervals])
    his = los if all(b.exact for b in intervals) else outputs(op, *[b.hi for b in intervals])
    if all(b.any is None for b in intervals):
        return [Interval(lo, hi) for lo, hi in zip(los, his)]
    return [
        Interval(lo, hi, mask)
        for lo, hi, mask in zip(los, his, outputs(op, *[b.mask() for b in intervals]))
    ]


def opaque(op: Computing, *intervals: Interval) -> list[Interval]:
    """Outputs of an operator without known bounds: masked unless every input is exact."""
    known = all(b.any is None and (b.exact or bool((b.lo == b.hi).all())) for b in intervals)
    return [
        Interval(y, y, everywhere(y, not known)) for y in outputs(op, *[b.lo for b in intervals])
    ]


def outputs(op: Computing, *tensors: Tensor) -> list[Tensor]:
    """The results of `op.torch`, as a list."""
    result = op.torch(*tensors)
    return list(result) if isinstance(result, Sequence) else [result]


def monotone(f: Function, signs: Sequence[int], *intervals: Interval) -> Interval:
    """The interval of a function that grows (+1) or falls (-1) with each broadcasting input.

    The last sign applies to all further inputs. The result has the inputs' masks, or-ed.
    """
    lo, hi = ends(f, signs, *intervals)
    return Interval(lo, hi, joined(*intervals, like=lo))


def ends(f: Function, signs: Sequence[int], *intervals: Interval) -> tuple[Tensor, Tensor]:
    """Lower and upper end of a function that is monotone in each input, without a mask.

    Any function qualifies whose every output grows (falls) with every element of an input:
    elementwise ones, sums, means, maxima, interpolations.
    """
    signs = [*signs, *[signs[-1]] * (len(intervals) - len(signs))]
    lo = f(*[b.lo if s > 0 else b.hi for b, s in zip(intervals, signs)])
    if all(b.exact for b in intervals):
        return lo, lo
    return lo, f(*[b.hi if s > 0 else b.lo for b, s in zip(intervals, signs)])


def corners(f: Function, a: Interval, b: Interval) -> Interval:
    """The interval of an elementwise function with its extrema at the corners, such as a product.

    Operands that are the same interval object have equal values.
    """
    if a is b:
        points = [f(a.lo, a.lo)] if a.exact else [f(a.lo, a.lo), f(a.hi, a.hi), f(a.lo, a.hi)]
    else:
        points = [f(x, y) for x in distinct(a) for y in distinct(b)]
    return Interval(*hull(points), joined(a, b, like=points[0]))


def distinct(interval: Interval) -> tuple[Tensor, ...]:
    """The ends of an interval; a single tensor if it is exact."""
    return (interval.lo,) if interval.exact else (interval.lo, interval.hi)


def hull(points: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Elementwise minimum and maximum of tensors; twice the same object for a single tensor."""
    if len(points) == 1:
        return points[0], points[0]
    return reduce(torch.minimum, points), reduce(torch.maximum, points)


def linear(
    f: Function, *intervals: Interval, weights: Sequence[int] = (), absolute: Function | None = None
) -> Interval:
    """The interval of a function that is affine in each input, such as a matrix product.

    It is computed as centre and radius. absolute: maps radii; it is `f` with the absolute values of
    its coefficients (default: `f`, if they are >= 0). weights: positions of inputs that are
    multiplied with each other. Integers wrap around, so results of inexact ones are masked.
    """
    absolute = absolute or f
    if not intervals[0].lo.is_floating_point():
        intervals = tuple(b if b.exact else Interval(b.lo, b.lo, b.unsure) for b in intervals)
    centres = [b.lo if b.exact else (b.lo + b.hi) * 0.5 for b in intervals]
    y = f(*centres)
    mask = torch_mask(absolute, *intervals, weights=weights)
    if all(b.exact for b in intervals):
        return Interval(y, y, mask)
    spread = _spread(absolute, intervals, centres, weights)
    return Interval(y - spread, y + spread, mask)


def _spread(
    f: Function, intervals: Sequence[Interval], centres: Sequence[Tensor], weights: Sequence[int]
) -> Tensor:
    """f(|centre| + radius) - f(|centre|), an upper bound of the result's radius.

    Factors change one after the other: those before a factor are at their outer ends, those after
    it at their centres. Nothing is subtracted, so 2^-40 of the result covers its rounding.
    """
    total: Tensor | None = None
    for i, b in enumerate(intervals):
        if b.exact:
            continue
        parts = []
        for j, (c, other) in enumerate(zip(centres, intervals)):
            if j == i:
                parts.append((b.hi - b.lo) * 0.5)
            elif i not in weights or j not in weights:
                parts.append(torch.zeros_like(c))
            elif j > i or other.exact:
                parts.append(c.abs())
            else:
                parts.append(c.abs() + (other.hi - other.lo) * 0.5)
        moved = f(*parts).clamp(min=0)
        total = moved if total is None else total + moved
    assert total is not None
    return total * (1 + 2.0**-40)


def even(f: Function, interval: Interval, at_zero: float = 0.0) -> Interval:
    """The interval of an elementwise function that falls until 0, is `at_zero` there, and grows."""
    return unimodal(f, interval, 0.0, at_zero)


def unimodal(f: Function, interval: Interval, argmin: float, minimum: float) -> Interval:
    """The interval of an elementwise function that falls until `argmin` and grows from there."""
    if interval.exact:
        y = f(interval.lo)
        return Interval(y, y, interval.any)
    a, b = f(interval.lo), f(interval.hi)
    inside = (interval.lo < argmin) & (interval.hi > argmin)
    lo = torch.where(inside, torch.full_like(a, minimum), torch.minimum(a, b))
    return Interval(lo, torch.maximum(a, b), interval.any)


def periodic(f: Function, interval: Interval, maximum_at: float) -> Interval:
    """The interval of a function like sin, of period 2 pi and range [-1, 1]."""
    a = f(interval.lo)
    if interval.exact:
        return Interval(a, a, interval.any)
    b = f(interval.hi)
    top = holds_multiple(interval, maximum_at, 2 * math.pi)
    bottom = holds_multiple(interval, maximum_at + math.pi, 2 * math.pi)
    lo = torch.where(bottom, -1.0, torch.minimum(a, b))
    return Interval(lo, torch.where(top, 1.0, torch.maximum(a, b)), interval.any)


def holds_multiple(interval: Interval, offset: float, period: float) -> Tensor:
    """Mask of elements whose interval contains `offset + n * period` for some integer n."""
    return ((interval.lo - offset) / period).ceil() <= ((interval.hi - offset) / period).floor()


def holds(interval: Interval, value: float = 0.0) -> Tensor:
    """Mask of elements whose interval contains the value."""
    return (interval.lo <= value) & (interval.hi >= value)


def uncertain(f: Function, *intervals: Interval) -> Interval:
    """The interval of an elementwise function about which nothing but its values is known.

    Elements with an inexact input are masked; booleans become the interval [False, True].
    """
    y = f(*[b.lo for b in intervals])
    open_ = [Interval(b.lo, b.lo, b.lo != b.hi) for b in intervals if not b.exact]
    unsure, mask = joined(*open_, like=y), joined(*intervals, like=y)
    if unsure is None:
        return Interval(y, y, mask)
    if y.dtype is torch.bool:
        return Interval(y & ~unsure, y | unsure, mask)
    return Interval(y, y, unsure if mask is None else unsure | mask)
