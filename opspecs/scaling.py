"""Normalisation by groups, norms and neighbourhoods."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import or_
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.broadcast import narrowed
from nnfuzz.operators.families.elementwise import Unary, products, single
from nnfuzz.operators.families.norm import (
    STASH_TYPE,
    AlongAxis,
    Normalization,
    affine,
    centred,
    centred_interval,
    centred_radius,
    mean_of,
    shifted_radius,
    spread_mask,
    stashed,
    trailing,
)
from nnfuzz.operators.families.shape import AXES, Along, positive
from nnfuzz.operators.families.sums import largest
from nnfuzz.operators.intervals import Interval, corners, ends
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.rounding import SINGLE, largest_first, stepwise, underflow
from nnfuzz.operators.unexportable import DECOMPOSED

from .norm import CHANNEL, PerChannel, across, channelwise


def squares(x, f):
    """The interval of f(x * x), where f grows with each element."""
    return Interval(*ends(lambda m: f(m * m), (1,), Interval(*x.magnitudes())), None)


@operator
class GroupNormalization(PerChannel):
    """Statistics over groups of channels; scale and bias per channel, as from opset 21 on.

    Below opset 21, and for float64, whose statistics the operator computes in float32 by default,
    it is lowered to InstanceNormalization of the groups, as exporters do. Source: ONNX
    GroupNormalization-21.
    """

    unexportable = DECOMPOSED
    inputs = (In("T", FLOATS, (3, 5)), CHANNEL, CHANNEL)
    num_groups = Choice((1, 2, 2, 3, 4))
    stash_type = STASH_TYPE

    def requires(self, x, *vectors):
        yield from super().requires(x, *vectors)
        yield x.shape[1] % self.num_groups == 0

    def _grouped(self, x):
        return x.unflatten(1, (self.num_groups, -1)).flatten(2)

    def torch(self, x, scale, bias):
        d, s = centred(self._grouped(x), (2,), self.eps)
        return (d / s).reshape(x.shape) * across(scale, x) + across(bias, x)

    def interval(self, x, *vectors):
        mask = None if x.any is None else self._grouped(x.any)
        d = centred_interval(
            Interval(self._grouped(x.lo), self._grouped(x.hi), mask), (2,), self.eps
        )
        shape = x.lo.shape
        mask = None if d.any is None else d.any.reshape(shape)
        interval = Interval(d.lo.reshape(shape), d.hi.reshape(shape), mask)
        return [affine(interval, *channelwise(vectors, x))]

    def domain(self, x, scale, bias):
        """Sums of squares must stay finite."""
        return [x.abs() - math.sqrt(largest(x) / (8 * self._grouped(x).shape[2]))]

    def radius(self, u, y, x, scale, bias):
        scales = self._grouped(across(scale, x).expand_as(x))
        inner = centred_radius(u, self._grouped(x), (2,), self.eps, scales).reshape(x.shape)
        return shifted_radius(u, y, across(bias, x)) + u * y.abs() + inner

    def onnx(self, emit, x, scale, bias):
        type_ = emit.type(x)
        if emit.opset >= 21 and stashed(self.stash_type, type_.dtype):
            return emit("GroupNormalization", x, scale, bias, **self.attributes)
        groups, rest = [0, self.num_groups, -1], [-1, *[1] * (type_.rank - 2)]
        y = emit("Reshape", x, emit.const(groups, DType.INT64))
        ones, zeros = (emit.const([v] * self.num_groups, type_.dtype) for v in (1.0, 0.0))
        y = emit("InstanceNormalization", y, ones, zeros, epsilon=self.epsilon)
        y = emit("Reshape", y, emit.const(type_.shape, DType.INT64))
        scale, bias = (emit("Reshape", v, emit.const(rest, DType.INT64)) for v in (scale, bias))
        return emit("Add", emit("Mul", y, scale), bias)


@operator
class RMSNormalization(Along, Normalization):
    """x / sqrt(mean(x^2) + epsilon) * scale over the axes from `axis` on.

    A composition below opset 23 and for float64, whose mean the operator computes in float32 by
    default. Source: ONNX RMSNormalization-23.
    """

    inputs = (In("T", FLOATS, (1, 5)), In("T", ranks=(0, 5), weight=True))
    stash_type = STASH_TYPE

    def requires(self, x, scale):
        yield from super().requires(x)
        tail = x.shape[self.axis % x.rank :]
        # "Scale tensor shape should be broadcastable to the normalized shape", by the standard.
        yield scale.rank <= len(tail)
        yield from ((b == a) | (b == 1) for a, b in zip(reversed(tail), reversed(scale.shape)))

    def complete(self, draw, first, dtypes):
        tail = first.shape[self.axis % first.rank :]
        return [first, TensorType(dtypes[1], tail if draw.chance(0.6) else narrowed(draw, tail))]

    def _root(self, squared):
        axes = trailing(self.axis, squared.dim())
        return (squared.mean(axes, keepdim=True) + self.eps).sqrt()

    def torch(self, x, scale):
        return x / self._root(x * x) * scale

    def interval(self, x, scale):
        inner = corners(torch.div, Interval(x.lo, x.hi), squares(x, self._root))
        axes = trailing(self.axis, x.lo.dim())
        return [affine(inner.masked(spread_mask(x.any, axes)), scale, None)]

    def value_range(self, x, scale):
        return products(
            (min(0.0, math.copysign(math.inf, x[0])), math.inf if x[1] > 0 else 0.0), scale
        )

    def domain(self, x, scale):
        """Sums of squares must stay finite."""
        count = math.prod(x.shape[a] for a in trailing(self.axis, x.dim()))
        return [x.abs() - math.sqrt(largest(x) / (2 * count))]

    def radius(self, u, y, x, scale):
        """Half the relative error of the mean, with squares, additions, division and epsilon, plus
        the root's."""
        axes, s = trailing(self.axis, x.dim()), self._root(x * x)
        mean = (x * x).mean(axes, keepdim=True)
        count = x.numel() // max(1, mean.numel())
        added = largest_first(x * x / count, axes, mean) / (s * s)
        return y.abs() * (u * ((added + 3) / 2 + 4) + underflow(u) / (s * s))

    def onnx(self, emit, x, scale):
        type_ = emit.type(x)
        if emit.opset >= 23 and stashed(self.stash_type, type_.dtype):
            return emit("RMSNormalization", x, scale, **self.attributes)
        mean = mean_of(emit, emit("Mul", x, x), trailing(self.axis, type_.rank))
        root = emit("Sqrt", emit("Add", mean, emit.const(self.eps, type_.dtype)))
        return emit("Mul", emit("Div", x, root), scale)


@operator
class LpNormalization(AlongAxis):
    """x / norm(x) along an axis; the norm stays away from 0. Source: ONNX LpNormalization-1."""

    p = Choice((1, 2))
    within = (-1.0, 1.0)

    def _norm(self, x):
        if self.p == 1:
            return x.abs().sum(self.axis, keepdim=True)
        return (x * x).sum(self.axis, keepdim=True).sqrt()

    def torch(self, x):
        return x / self._norm(x)

    def along(self, x):
        norm = Interval(*ends(self._norm, (1,), Interval(*x.magnitudes())))
        return corners(torch.div, x, norm).masked((norm.lo <= 0).expand_as(x.lo))

    def domain(self, x):
        most = largest(x) / (2 * x.shape[self.axis])
        return [0.05 - self._norm(x), x.abs() - (most if self.p == 1 else math.sqrt(most))]

    def feasible(self, x):
        return max(-x[0], x[1]) > 0.01

    def value_range(self, x):
        return (-1.0 if x[0] < 0 else 0.0), (1.0 if x[1] > 0 else 0.0)

    def radius(self, u, y, x):
        """Error of the norm; for p = 2 the root halves the error of the sum of squares."""
        count, norm = x.shape[self.axis], self._norm(x)
        whole = norm**self.p
        added = largest_first(x.abs() ** self.p, (self.axis,), whole) / whole
        off = added if self.p == 1 else (added + 1) / 2 + 1.5
        return y.abs() * (u * (off + 2.5) + count * underflow(u) / whole)


@operator
class MeanVarianceNormalization(Unary):
    """(x - mean(x)) / deviation(x) over axes; the variance stays away from 0, where ONNX's 1e-9 has
    no effect.

    A composition unless float32: ONNX's own function body adds a float32 number for every type
    (onnx 1.23). Source: ONNX MeanVarianceNormalization-13.
    """

    takes_empty = False

    inputs = (In("T", FLOATS, (1, 5)),)
    axes = AXES
    differing = True
    sharp = False

    def requires(self, x):
        yield all(-x.rank <= a < x.rank for a in self.axes)
        yield 0 < len(self.axes) == len(set(positive(self.axes, x.rank)))
        yield or_(*(x.shape[a] > 1 for a in self.axes))

    def torch(self, x):
        d, s = centred(x, self.axes, 0.0)
        return d / s

    def interval(self, x):
        return [centred_interval(x, self.axes, 1e-12)]

    def domain(self, x):
        """Some implementations subtract the square of the mean from the mean of the squares."""
        count = math.prod(x.shape[a] for a in self.axes)
        _, s = centred(x, self.axes, 0.0)
        square = (x * x).mean(self.axes, keepdim=True)
        lost = 8 * torch.finfo(x.dtype).eps
        return [
            1e-4 + lost * square - s * s,
            x.abs() - math.sqrt(largest(x) / (8 * count)),
        ]

    def feasible(self, x):
        return x[1] - x[0] > 0.1

    def demanded(self, x):
        """No range is demanded: the elements only have to differ."""
        return math.inf, math.inf

    def certain(self, x):
        """Values on both sides of 0 occur: the mean is 0 and the mean of the squares is 1."""
        return ((-math.inf, 0.0), (1.0, math.inf))

    def onnx(self, emit, x):
        dtype = emit.type(x).dtype
        if dtype is DType.FLOAT32:
            return emit("MeanVarianceNormalization", x, axes=self.axes)
        d = emit("Sub", x, mean_of(emit, x, self.axes))
        s = emit("Sqrt", mean_of(emit, emit("Mul", d, d), self.axes))
        return emit("Div", d, s)

    def radius(self, u, y, x):
        return u * y.abs() + centred_radius(u, x, self.axes, 0.0, 1.0)


@operator
class LRN(Unary):
    """x / (bias + alpha / size * (sum of squares over `size` channels around)) ^ beta.

    Images only, because runtimes implement no other rank. Source: ONNX LRN-13.
    """

    takes_empty = False
    carries_nan = False
    """PyTorch's running sums carry it into channels of other windows."""
    weight = 1.8  # few values have such a type
    unexportable = DECOMPOSED
    inputs = (In("T", FLOATS, (4, 4)),)
    sharp = False
    size = Choice((1, 3, 3, 5, 7))
    alpha = Choice((1e-4, 1e-2, 0.5, 1.0))
    beta = Choice((0.75, 0.75, 0.5, 1.0))
    bias = Choice((1.0, 1.0, 0.5, 2.0))

    def _base(self, squared):
        before, after = (self.size - 1) // 2, self.size // 2
        padded = torch.cat([torch.zeros_like(squared[:, :1])] * before + [squared], 1)
        padded = torch.cat([padded] + [torch.zeros_like(squared[:, :1])] * after, 1)
        whole = sum(padded.narrow(1, i, squared.shape[1]) for i in range(self.size))
        return whole * single(self.alpha) / self.size + self.bias

    def torch(self, x):
        return x / self._base(x * x) ** self.beta

    def interval(self, x):
        base = squares(x, self._base)
        interval = corners(
            torch.div, Interval(x.lo, x.hi), Interval(base.lo**self.beta, base.hi**self.beta)
        )
        return [interval.masked(None if x.any is None else self._base(x.any.double()) > self.bias)]

    def domain(self, x):
        return [x.abs() - math.sqrt(largest(x) / (2 * self.size))]

    def value_range(self, x):
        grow = max(1.0, self.bias**-self.beta)
        return min(0.0, grow * x[0]), max(0.0, grow * x[1])

    def radius(self, u, y, x):
        """The sum may be a running one that adds squares at one end and subtracts them at the
        other; a single channel has no sum (LRN-13, as `untrusted` quotes it).
        """
        base = self._base(x * x)
        total = (x * x).sum(1, keepdim=True) * (self.alpha / self.size)
        running = x.shape[1] if self.size > 1 else 0
        off = (2 * u * running * total / base).clamp(max=1)
        power = 5 + 4 * self.beta * base.log().abs() if u == SINGLE else stepwise(u)
        relative = 3 + power + self.beta * (self.size + 4)
        return y.abs() * (u * relative + (1 - off) ** -self.beta - 1)
