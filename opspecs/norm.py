"""Normalisations."""

from __future__ import annotations

import math
from functools import reduce
from typing import ClassVar

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.broadcast import narrowed
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.families.elementwise import single
from nnfuzz.operators.families.norm import (
    AlongAxis,
    Exponentials,
    InverseDeviation,
    Normalization,
    Standardised,
    Variance,
    affine,
    flushed,
    log_radius,
    mean_of,
    trailing,
)
from nnfuzz.operators.families.reduce import winners
from nnfuzz.operators.families.shape import Along, may_be_one, on_interval
from nnfuzz.operators.families.sums import largest
from nnfuzz.operators.intervals import Interval, corners, monotone
from nnfuzz.operators.operator import In, OpSpec, operator
from nnfuzz.operators.rounding import SINGLE, faded, rounding_error
from nnfuzz.operators.unexportable import DECOMPOSED

from .reduce import ArgMax, ReduceMean

CHANNEL = In("T", ranks=(1, 1), weight=True)


@operator
class Softmax(Exponentials):
    within = (0.0, 1.0)
    leaves_out = True

    def torch(self, x):
        return torch.softmax(x, self.axis)

    def of_log_share(self, log):
        return log.exp()

    def radius(self, u, y, x):
        """The exponentials are divided by their sum or multiplied by its reciprocal."""
        return y * (2 * u + self.roundings(u, x)) + faded(u)


@operator
class LogSoftmax(Exponentials):
    within = (-math.inf, 0.0)

    def torch(self, x):
        return torch.log_softmax(x, self.axis)

    def of_log_share(self, log):
        return log

    def radius(self, u, y, x):
        return log_radius(u, y, x, self.axis)


@operator
class Hardmax(AlongAxis):
    """1 for the first of the largest elements, 0 for the others. Source: ONNX Hardmax-13."""

    def torch(self, x):
        at = torch.argmax(x, self.axis, keepdim=True)
        return (self._places(x) == at).to(x.dtype)

    def _places(self, x):
        shape = [1] * x.dim()
        shape[self.axis] = x.shape[self.axis]
        return torch.arange(x.shape[self.axis]).reshape(shape)

    def proxy(self, x):
        return torch.softmax(x, self.axis)

    def along(self, x):
        first, last = winners(x.lo, x.hi, self.axis)
        places = self._places(x.lo)
        sure, may = (places == first) & (first == last), (places >= first) & (places <= last)
        return Interval(sure.to(x.lo.dtype), may.to(x.lo.dtype))

    def margins(self, x):
        return ArgMax(axis=self.axis, keepdims=1).margins(x)

    def value_range(self, x):
        return 0.0, 1.0

    def certain(self, x):
        size = x.shape[self.axis]
        return ((1, 1),) if isinstance(size, int) and size == 1 else ((1, 1), (0, 0))


class PerChannel(Normalization):
    """(N, C, *S) and vectors of length C -> (N, C, *S)."""

    def requires(self, x, *vectors):
        for v in vectors:
            yield v.shape[0] == x.shape[1]

    def complete(self, draw, first, dtypes):
        return [first, *(TensorType(d, (first.shape[1],)) for d in dtypes[1:])]

    def spread(self, v, x):
        return across(v, x)


def across(v, x):
    """A vector of length C, shaped to broadcast over (N, C, *S)."""
    return v.reshape(x.shape[1], *[1] * (x.dim() - 2))


def channelwise(intervals, x):
    """Intervals of vectors of length C, shaped to broadcast over (N, C, *S)."""
    return [on_interval(lambda v: across(v, x.lo), b) for b in intervals]


def _as_precise(dtype, *others):
    """Whether other float types are at least as precise as one."""
    return all(other.unit_roundoff <= dtype.unit_roundoff for other in others)


@operator
class BatchNormalization(PerChannel):
    """Normalisation at inference: statistics are inputs. Source: ONNX BatchNormalization-15.

    Scale and bias may have another float type, mean and variance a third one, both at least as
    precise as the input's. A compiler may round them to that.
    """

    merges = ("Conv", "ConvTranspose")
    inputs = (
        In("T", FLOATS, (2, 5)),
        *[In("P", FLOATS, (1, 1), weight=True)] * 2,
        *[In("S", FLOATS, (1, 1), weight=True)] * 2,
    )
    joining = "first"
    valid = (None, None, None, None, (0.0, math.inf))

    @classmethod
    def signatures(cls):
        found = super().signatures()
        return [(b, out) for b, out in found if _as_precise(b["T"], b["P"], b["S"])]

    def requires(self, x, *vectors):
        # The standard does not say whether a variance of less precision is widened first.
        yield _as_precise(x.dtype, *(v.dtype for v in vectors))
        yield from super().requires(x, *vectors)

    def torch(self, x, *vectors):
        dtype = reduce(torch.promote_types, (v.dtype for v in (x, *vectors)))
        scale, bias, mean, var = (v.to(dtype) for v in vectors)
        y = torch.nn.functional.batch_norm(
            x.to(dtype), mean, var, scale, bias, False, 0.0, self.eps
        )
        return y.to(x.dtype)

    def proxy(self, x, scale, bias, mean, var):
        """The formula in elementary operations, since PyTorch's has no derivatives by mean and
        variance."""
        scale, bias, mean, var = (across(v, x) for v in (scale, bias, mean, var))
        return (x - mean) / (var + self.eps).sqrt() * scale + bias

    def interval(self, x, *vectors):
        scale, bias, mean, var = channelwise(vectors, x)
        d = monotone(torch.sub, (1, -1), x, mean)
        s = monotone(lambda v: torch.sqrt(v + self.eps), (1,), var)
        return [affine(corners(torch.div, d, s), scale, bias)]

    def _parts(self, x, scale, bias, mean, var):
        g = across(scale.abs() / torch.sqrt(var.clamp(min=0) + self.eps), x)
        return g * (x.abs() + across(mean.abs(), x)) + across(bias.abs(), x)

    def domain(self, x, scale, bias, mean, var):
        """The result must be finite if scale * x and scale * mean are computed first."""
        whole = across(scale.abs(), x) * (x.abs() + across(mean.abs(), x))
        return [
            -var,
            var - largest(x) / 4,
            whole - largest(x) / 4,
            self._parts(x, scale, bias, mean, var) - largest(x) / 4,
        ]

    def radius(self, u, y, x, scale, bias, mean, var):
        """g = scale / sqrt(var + eps) is off by 3 u, whatever it multiplies.

        Then (x - mean) g + bias is computed, or x g + (bias - mean g), where g is the same number
        in both places. Parameters of another type may be rounded to that of the input before.
        """
        off = [across(rounding_error(u, v), x) for v in (scale, bias, mean, var)]
        scale, bias, mean, var = (across(v, x) for v in (scale, bias, mean, var))
        s = torch.sqrt(var.clamp(min=0) + self.eps)
        g = scale / s
        d, shift = ((x - mean) * g).abs(), bias - mean * g
        folded = (x * g).abs() + (mean * g).abs() + shift.abs()
        rounding = u * (3 * d + torch.maximum(2 * d, folded) + y.abs())
        moved = (off[0] / s + g.abs() * off[3] / (s * s)) * (x - mean).abs()
        moved = moved + g.abs() * off[2] + off[1]
        return rounding + (1 + 8 * u) * moved + flushed(u, g, x.abs() + mean.abs())


@operator
class InstanceNormalization(PerChannel, Standardised):
    """Statistics over the spatial axes of each instance. Source: ONNX InstanceNormalization-6."""

    inputs = (In("T", FLOATS, (3, 5)), CHANNEL, CHANNEL)

    def over(self, rank):
        return tuple(range(2, rank))


@operator
class LayerNormalization(Along, Standardised):
    """Statistics over the trailing axes from `axis` on; scale and optional bias broadcast to the
    input, and mostly have the shape of these axes.

    One ONNX operator from opset 17 on; a composition below, and for float64, since the operator may
    compute statistics in float32. Source: ONNX LayerNormalization-17.
    """

    inputs = (
        In("T", FLOATS, (1, 5)),
        In("T", ranks=(0, 5), weight=True),
        In("T", ranks=(0, 5), weight=True),
    )
    variadic = (2, 3)
    unset: ClassVar = {
        "stash_type": "in bfloat16, the other one that it admits, the standard's variance cancels"
    }

    def requires(self, x, *vectors):
        yield from super().requires(x)
        for v in vectors:
            yield v.rank <= x.rank
            pairs = zip(reversed(x.shape), reversed(v.shape))
            yield from ((b == a) | (b == 1) for a, b in pairs if a is not b)

    def complete(self, draw, first, dtypes):
        return [first, *(TensorType(d, self._vector(draw, first)) for d in dtypes[1:])]

    def _vector(self, draw, x):
        if draw.chance(0.8):
            return x.shape[self.axis % x.rank :]
        return narrowed(draw, x.shape)

    def over(self, rank):
        return trailing(self.axis, rank)

    def certain(self, x, scale, *bias):
        """Without a bias, 0 occurs if one number is normalised, and negative numbers occur
        otherwise."""
        if bias:
            return ()
        zero = ((0, 0),) if may_be_one(*x.shape[self.axis % x.rank :]) else ()
        return (*zero, (-math.inf, 0.0))

    def onnx(self, emit, x, scale, *bias):
        type_ = emit.type(x)
        if emit.opset >= 17 and type_.dtype is not DType.FLOAT64:
            values = (x, scale, *bias)
            return emit("LayerNormalization", *values, axis=self.axis, epsilon=self.epsilon)
        axes = self.over(type_.rank)
        d = emit("Sub", x, mean_of(emit, x, axes))
        two, eps = (emit.const(v, type_.dtype) for v in (2.0, self.eps))
        variance = mean_of(emit, emit("Pow", d, two), axes)  # as PyTorch's exporter writes it
        s = emit("Sqrt", emit("Add", variance, eps))
        y = emit("Mul", emit("Div", d, s), scale)
        return emit("Add", y, *bias) if bias else y


NARROW = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
IN_SINGLE = Moves(lambda x: x.float() if x.dtype in (torch.float16, torch.bfloat16) else x)


class WithStatistics(Composite):
    """A normalisation that returns statistics as well."""

    unexportable = DECOMPOSED

    @property
    def norm(self):
        """The normalisation alone; it decides on the inputs."""
        raise NotImplementedError

    def requires(self, *inputs):
        yield from self.norm.requires(*inputs)

    def complete(self, draw, first, dtypes):
        return self.norm.complete(draw, first, dtypes)


@operator
class LayerNormalizationStatistics(WithStatistics, Along):
    """LayerNormalization with its statistics in float32 as further outputs.

    kept: which of them, 1 for the mean, 2 for the reciprocal of the standard deviation.
    Source: ONNX LayerNormalization-17.
    """

    since = 17
    inputs = (In("T", NARROW, (1, 5)), *LayerNormalization.inputs[1:])
    variadic = (2, 3)
    epsilon = Normalization.epsilon
    kept = Choice(((1, 2), (1, 2), (1,), (2,)))

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        return super().from_onnx({**fields, "kept": (1, 2)[: len(gives) - 1]}, takes, gives)

    @property
    def norm(self):
        return LayerNormalization(axis=self.axis, epsilon=self.epsilon)

    def type_transfer(self, x, *vectors):
        at = self.axis % x.rank
        shape = (*x.shape[:at], *[1] * (x.rank - at))
        return [x, *[TensorType(DType.FLOAT32, shape)] * len(self.kept)]

    def compose(self, apply, x, *vectors):
        axes = trailing(self.axis, len(x.shape))
        statistics = {
            1: ReduceMean(axes=axes, keepdims=1),
            2: InverseDeviation(axes, self.norm.eps),
        }
        found = [apply(IN_SINGLE, apply(statistics[i], x)) for i in self.kept]
        return [apply(self.norm, x, *vectors), *found]

    def onnx(self, emit, *values):
        count, attributes = 1 + max(self.kept), {"axis": self.axis, "epsilon": self.epsilon}
        made = emit("LayerNormalization", *values, outputs=count, **attributes)
        return [made[0], *(made[i] for i in self.kept)]


class OverBatch(PerChannel, Standardised):
    """Normalisation by the statistics of the batch."""

    def over(self, rank):
        return (0, *range(2, rank))


class Running(OpSpec):
    """momentum * a + (1 - momentum) * b, where 1 - momentum may be rounded to float32."""

    def __init__(self, momentum):
        self.momentum = momentum

    def torch(self, a, b):
        return self.momentum * a + (1 - self.momentum) * b.reshape(a.shape)

    def interval(self, a, b):
        b = on_interval(lambda v: v.reshape(a.lo.shape), b)
        return [monotone(self.torch, (1, 1), a, b)]

    def radius(self, u, y, a, b):
        size = (self.momentum * a).abs() + (1 - self.momentum) * b.reshape(a.shape).abs()
        return (4 * u + SINGLE) * size


@operator
class BatchNormalizationTraining(WithStatistics):
    """Normalisation by the statistics of the batch, and the running ones, which it moves towards
    those. Source: ONNX BatchNormalization-15, training_mode.
    """

    since = 14
    weight = 0.5
    inputs = (In("T", FLOATS, (2, 5)), *[CHANNEL] * 4)
    epsilon = Normalization.epsilon
    momentum = Choice((0.9, 0.9, 0.5, 0.25))

    @property
    def norm(self):
        return BatchNormalization(epsilon=self.epsilon)

    def type_transfer(self, x, scale, bias, mean, var):
        return [x, mean, var]

    def compose(self, apply, x, scale, bias, mean, var):
        norm = OverBatch(epsilon=self.epsilon)
        axes, running = norm.over(len(x.shape)), Running(single(self.momentum))
        y = apply(norm, x, scale, bias)
        mean = apply(running, mean, apply(ReduceMean(axes=axes, keepdims=0), x))
        return [y, mean, apply(running, var, apply(Variance(axes), x))]

    def onnx(self, emit, *values):
        said = {"epsilon": self.epsilon, "momentum": self.momentum, "training_mode": 1}
        return emit("BatchNormalization", *values, outputs=3, **said)
