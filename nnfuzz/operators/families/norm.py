"""Normalisations: Softmax and related operators, and operators with learnt scale and shift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Fields, Types
from nnfuzz.operators.families.elementwise import Unary
from nnfuzz.operators.families.shape import Along, may_be_one, on_interval
from nnfuzz.operators.families.sums import largest, mean_radius
from nnfuzz.operators.intervals import Interval, corners, monotone
from nnfuzz.operators.operator import In, OpSpec, Range
from nnfuzz.operators.rounding import SINGLE, largest_first, stepwise, underflow


class AlongAxis(Along, Unary):
    """One tensor in, one of the same shape out; elements mix along one axis."""

    takes_empty = False
    inputs = (In("T", FLOATS, (1, 5)),)
    sharp = False

    def cost(self, *inputs):
        return 8 * inputs[0].elements

    def interval(self, x: Interval) -> Sequence[Interval]:
        return [self.along(x).masked(spread_mask(x.any, (self.axis,)))]

    def along(self, x: Interval) -> Interval:
        """The result for an interval without masked elements."""
        raise NotImplementedError


def spread_mask(mask: Tensor | None, axes: tuple[int, ...]) -> Tensor | None:
    """Mask of the elements that share their position outside `axes` with a masked element."""
    if mask is None:
        return None
    return mask.byte().amax(axes, keepdim=True).bool().expand_as(mask)


class Exponentials(AlongAxis):
    """A function of each element's share exp(x_i) / sum of exp(x_j) along the axis."""

    def of_log_share(self, log: Tensor) -> Tensor:
        """Maps logarithms of shares (minus infinity to 0) to results; monotonically increasing."""
        raise NotImplementedError

    def along(self, x: Interval) -> Interval:
        logs = log_shares(x, self.axis)
        return Interval(self.of_log_share(logs.lo), self.of_log_share(logs.hi))

    def certain(self, *inputs: TensorType) -> tuple[Range, ...]:
        """The least of n shares is at most 1 / n; the only share of a single element is 1."""
        size = inputs[0].shape[self.axis]
        share = 1 / (size if isinstance(size, int) and size else 3)
        logs = torch.tensor([share, 1.0], dtype=torch.float64).log()
        most, whole = self.of_log_share(logs).tolist()
        return (*(((whole, whole),) if may_be_one(size) else ()), (self.within[0], most))

    def roundings(self, u: float, x: Tensor) -> Tensor:
        """Relative error of every share (`share_roundings`)."""
        return share_roundings(u, x, self.axis)


def shared(u: float, d: Tensor) -> Tensor:
    """Relative error of exp(-d), where d is a rounded difference from the largest exponent.

    In float32 the exponential is computed as a power of 2, whose exponent is a rounded product.
    """
    return u * ((2 if u == SINGLE else 1) * d + stepwise(u))


def share_roundings(u: float, x: Tensor, axis: int, sums: bool = False) -> Tensor:
    """Relative error of exp(x_i) / sum of exp(x_j) along an axis, before the division is rounded.

    x: scores; minus infinity takes no part. sums: return the error of the sum alone, kept as size
    1. A term's error e_i occurs in the numerator and, weighted by its share p_i, in the sum: to
    first order (1 - 2 p_i) e_i + sum of p_j e_j, plus the additions in any order (`largest_first`).
    """
    d = (x.amax(axis, keepdim=True) - x).clamp(max=1e4)
    each, share = shared(u, d), x.softmax(axis)
    most = torch.ones_like(share.narrow(axis, 0, 1))
    whole = (share * each).sum(axis, keepdim=True) + u * largest_first(share, (axis,), most)
    return whole if sums else whole + each * (1 - 2 * share).clamp(min=0)


def log_radius(u: float, y: Tensor, x: Tensor, axis: int) -> Tensor:
    """Rounding error of y = log_softmax(x), computed as log(share) or as x - max - log(sum)."""
    whole = share_roundings(u, x, axis, sums=True)
    d = x.amax(axis, keepdim=True) - x
    size, log = y.abs(), (y.abs() - d).abs()
    by_share = share_roundings(u, x, axis) + u * (2 + stepwise(u) * size)
    by_sum = whole + u * (stepwise(u) * log + d + size)
    return torch.maximum(by_share, by_sum) + u


def log_shares(x: Interval, axis: int) -> Interval:
    """Intervals of log(exp(x_i) / sum of exp(x_j)) along an axis.

    The share of x_i is 1 / (1 + sum of exp(x_j - x_i)), so all other shares are largest if x_i is
    at its lower end. Sums are kept as logarithms, since exponentials may underflow.
    """
    top = x.hi.amax(axis, keepdim=True)
    low, high = x.lo - top, x.hi - top
    slack = (x.lo.shape[axis] + 8) * 2.0**-53  # covers the rounding of the sums
    least = log_sum_of_others(low, axis) - high - slack
    most = log_sum_of_others(high, axis) - low + slack
    return Interval(logsigmoid(-most), logsigmoid(-least))


def log_sum_of_others(x: Tensor, axis: int) -> Tensor:
    """For every element, log of the sum of exp(x_j) over all other elements along an axis; minus
    infinity if there is none. For the largest element, beside which others may vanish, the sum is
    computed without it."""
    top, at = x.max(axis, keepdim=True)
    alone = x.scatter(axis, at, -math.inf).logsumexp(axis, keepdim=True)
    return (others((x - top).exp(), axis).log() + top).scatter(axis, at, alone)


def others(x: Tensor, axis: int) -> Tensor:
    """For every element, the sum of all others along an axis, computed without subtraction."""
    none = torch.zeros_like(x.narrow(axis, 0, 1))
    most = x.shape[axis] - 1

    def before(y: Tensor) -> Tensor:
        return torch.cat([none, y.narrow(axis, 0, most)], axis).cumsum(axis)

    return before(x) + before(x.flip(axis)).flip(axis)


class Normalization(OpSpec):
    """Operators that divide by sqrt(variance + epsilon), then scale and shift.

    ONNX stores `epsilon` in float32, so implementations use `eps`.
    """

    epsilon = Choice((1e-5, 1e-3, 1e-2, 0.1))

    @classmethod
    def from_onnx(cls, fields: Fields, takes: Types, gives: Types) -> Self:
        declared = next((d for d in FLOATS if d.onnx == fields.get("stash_type")), DType.FLOAT32)
        stash = None if declared is DType.FLOAT32 else declared
        return super().from_onnx({**fields, "stash_type": stash}, takes, gives)

    @property
    def eps(self) -> float:
        """The epsilon rounded to float32."""
        return float(np.float32(self.epsilon))

    def cost(self, *inputs):
        return 8 * inputs[0].elements


class Standardised(Normalization):
    """scale * (x - mean) / sqrt(variance + epsilon) + bias; the bias is optional."""

    def over(self, rank: int) -> tuple[int, ...]:
        """The axes over which mean and variance are computed."""
        raise NotImplementedError

    def spread(self, v: Tensor, x: Tensor) -> Tensor:
        """A scale or bias, reshaped to broadcast to x. Default: unchanged."""
        return v

    def torch(self, x, scale, *bias):
        d, s = centred(x, self.over(x.dim()), self.eps)
        y = d / s * self.spread(scale, x)
        return y + self.spread(bias[0], x) if bias else y

    def interval(self, x, *vectors):
        near = [on_interval(lambda v: self.spread(v, x.lo), b) for b in vectors]
        return [affine(centred_interval(x, self.over(x.lo.dim()), self.eps), *near)]

    def domain(self, x, *vectors):
        return squares_fit(x, self.over(x.dim()))

    def radius(self, u, y, x, scale, *bias):
        shifted = shifted_radius(u, y, self.spread(bias[0], x)) if bias else 0.0
        axes = self.over(x.dim())
        return shifted + centred_radius(u, x, axes, self.eps, self.spread(scale, x))


STASH_TYPE = Choice((None, None, DType.FLOAT64), default=None)
"""The dtype for statistics that the model states; None: the default, float32. Less precise ones are
excluded: ONNX computes mean(x^2) - mean(x)^2, which may then be negative."""


def stashed(stash: DType | None, x: DType) -> bool:
    """Whether the ONNX operator computes its statistics at least as precisely as the dtype `x`.

    stash: the dtype of the statistics; None for float32.
    """
    return x is not DType.FLOAT64 or stash is DType.FLOAT64


def trailing(axis: int, rank: int) -> tuple[int, ...]:
    """The axes from `axis` to the last."""
    return tuple(range(axis % rank, rank))


def mean_of(emit: Any, x: str, axes: Sequence[int]) -> str:
    """Emit the mean over axes, which are kept as size 1; returns its name."""
    if emit.opset < 18:
        return emit("ReduceMean", x, axes=list(axes), keepdims=1)
    return emit("ReduceMean", x, emit.const(list(axes), DType.INT64), keepdims=1)


def centred(x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """x - mean(x) and sqrt(variance(x) + eps), with statistics over `axes`, kept as size 1."""
    d = x - x.mean(axes, keepdim=True)
    return d, ((d * d).mean(axes, keepdim=True) + eps).sqrt()


def flushed(u: float, factor: Tensor, x: Tensor) -> Tensor:
    """The error of factor * x if the factor is computed first and flushed to zero."""
    return torch.where(factor.abs() < underflow(u), (factor * x).abs(), 0.0)


def centred_interval(x: Interval, axes: tuple[int, ...], eps: float) -> Interval:
    """The interval of (x - mean(x)) / sqrt(variance(x) + eps).

    If x has the radius r and n elements, each element of the numerator moves by at most (1 - 2 / n)
    r_i + mean(r), and the divisor, a norm, by the root mean square of r.
    """
    centre, r = (x.lo + x.hi) * 0.5, (x.hi - x.lo) * 0.5
    d, s = centred(centre, axes, eps)
    n = centre.numel() // max(1, s.numel())
    numerator = (r * (1 - 2 / n) + r.mean(axes, keepdim=True)).clamp(min=0)
    denominator = (r * r).mean(axes, keepdim=True).sqrt()
    least = (s - denominator).clamp(min=eps**0.5)
    interval = corners(
        torch.div,
        Interval(d - numerator, d + numerator),
        Interval(least, torch.maximum(s + denominator, s)),
    )
    return interval.masked(spread_mask(x.any, axes))


def affine(x: Interval, scale: Interval, bias: Interval | None = None) -> Interval:
    """The interval of scale * x + bias; both broadcast to x."""
    y = corners(torch.mul, x, scale)
    return y if bias is None else monotone(torch.add, (1,), y, bias)


def centred_radius(
    u: float, x: Tensor, axes: tuple[int, ...], eps: float, scale: Tensor | float
) -> Tensor:
    """Rounding error of scale * (x - mean) / sqrt(variance + eps), by any usual algorithm.

    The mean has the error `shift`, that of a sum in any order. Two passes: this adds only its
    square to the variance, since the differences from the mean add up to 0; the sum of k squares
    has the error of its additions plus 4 u of itself (difference, square, division, sum with eps).
    One pass: mean(x^2) - mean(x)^2 has the error of adding the squares in any order
    (`largest_first`) plus 6 u of the mean square. No 16-bit dtype is precise enough for that, so u
    is at most that of float32; the same holds for computing the quotient as x g - mean g. Otherwise
    root, reciprocal, difference and two products are rounded. The factor scale / sqrt(variance +
    eps) may be computed first, and be flushed to zero.
    """
    d, s = centred(x, axes, eps)
    mean = x.mean(axes, keepdim=True)
    shift = mean_radius(u, x, axes, mean)
    least, root = _least_root(u, x, axes, eps)
    moved = shift + 3 * min(u, SINGLE) * (x.abs() + mean.abs())
    factor = scale.abs() if isinstance(scale, torch.Tensor) else abs(scale)
    rounding = factor * (moved / least + d.abs() * (root / (s * least) + 5 * u / s))
    return rounding + flushed(u, factor / s, d)


def variance_radius(u: float, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Rounding error of the variance (derived in `centred_radius`)."""
    count = math.prod(x.shape[axis] for axis in axes)
    narrow = min(u, SINGLE)
    mean = x.mean(axes, keepdim=True)
    d = x - mean
    shift = mean_radius(u, x, axes, mean)
    fine = shift if u == narrow else mean_radius(narrow, x, axes, mean)
    mean = mean.abs()
    spread = (d * d).mean(axes, keepdim=True)
    square = spread + mean * mean
    added = largest_first(d * d / count, axes, spread)
    twice = _grown(1, u) * (added * (1 + _grown(count, u)) + 5 * spread) + 2 * shift * shift
    raw = largest_first(x * x / count, axes, square)
    once = narrow * (raw * (1 + _grown(count, narrow)) + 6 * square) + (2 * mean + fine) * fine
    return torch.maximum(twice, once) + underflow(u)


def _least_root(u: float, x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """(least sqrt(variance + eps) of a correct implementation, error of that root)."""
    s, off = centred(x, axes, eps)[1], variance_radius(u, x, axes)
    least = (s * s - off).clamp(min=eps * 0.5).sqrt()
    return least, torch.minimum(off / (s + least), off.sqrt())


class InverseDeviation(OpSpec):
    """1 / sqrt(variance + epsilon) over axes, which are kept as size 1."""

    def __init__(self, axes: tuple[int, ...], eps: float) -> None:
        self.axes, self.eps = axes, eps

    def torch(self, x):
        return 1 / centred(x, self.axes, self.eps)[1]

    def domain(self, x):
        return squares_fit(x, self.axes)

    def interval(self, x):
        near, far = deviations(x, self.axes)
        least, most = (1 / (v * v + self.eps).sqrt() for v in (far, near))
        return [Interval(least, most, masked_along(x, self.axes))]

    def radius(self, u, y, x):
        least, root = _least_root(u, x, self.axes, self.eps)
        return y * (root / least + 5 * u)


class Variance(OpSpec):
    """The variance over axes, which are kept as size 1."""

    within = (0.0, math.inf)

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def torch(self, x):
        d = x - x.mean(self.axes, keepdim=True)
        return (d * d).mean(self.axes, keepdim=True)

    def domain(self, x):
        return squares_fit(x, self.axes)

    def interval(self, x):
        near, far = deviations(x, self.axes)
        return [Interval(near * near, far * far, masked_along(x, self.axes))]

    def radius(self, u, y, x):
        return variance_radius(u, x, self.axes)


def squares_fit(x: Tensor, axes: Sequence[int]) -> list[Tensor]:
    """Domain terms that keep the sums of squares over the axes finite."""
    count = math.prod(x.shape[a] for a in axes)
    return [x.abs() - math.sqrt(largest(x) / (8 * count))]


def deviations(x: Interval, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Bounds of the standard deviation; it moves by at most the root mean square of the radii."""
    centre, r = (x.lo + x.hi) * 0.5, (x.hi - x.lo) * 0.5
    s = centred(centre, axes, 0.0)[1]
    moved = (r * r).mean(axes, keepdim=True).sqrt() + 2.0**-50 * s
    return (s - moved).clamp(min=0), s + moved


def masked_along(x: Interval, axes: Sequence[int]) -> Tensor | None:
    """Mask, with `axes` kept as size 1, of what depends on a masked element along them."""
    return None if x.any is None else x.any.byte().amax(tuple(axes), keepdim=True).bool()


def shifted_radius(u: float, y: Tensor, bias: Tensor | float) -> Tensor:
    """Error of adding a bias; in float32 or float64 it may be added to mean g of x g - mean g."""
    size = bias.abs() if isinstance(bias, torch.Tensor) else abs(bias)
    return u * y.abs() + 2 * min(u, SINGLE) * size


def _grown(k: float, u: float) -> float:
    """(1 + u)^k - 1, the relative error of k roundings, capped where it loses its meaning."""
    return math.expm1(min(k * u, 8.0))
