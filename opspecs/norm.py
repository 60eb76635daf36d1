"""Normalisations."""

from __future__ import annotations

import math

import torch
from nnfuzz.opspecs.reduce import ArgMax

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.families.axes import AXIS, may_be_one
from nnfuzz.spec.families.norm import (
    AlongAxis,
    Normalization,
    affine,
    centred,
    centred_box,
    centred_radius,
    exponential_sums,
    mean_of,
    trailing,
)
from nnfuzz.spec.families.reduce import winners
from nnfuzz.spec.families.sums import largest
from nnfuzz.spec.intervals import Box, corners, growth, monotone
from nnfuzz.spec.operator import In, operator

CHANNEL = In("T", ranks=(1, 1), weight=True)


@operator
class Softmax(AlongAxis):
    within = (0.0, 1.0)

    def torch(self, x):
        return torch.softmax(x, self.axis)

    def along(self, x):
        least, most = exponential_sums(x, self.axis)
        return Box(1 / most, 1 / least)

    def value_range(self, x):
        return 0.0, 1.0

    def certain(self, x):
        """The least one is 1 / size at most."""
        size = x.shape[self.axis]
        one = ((1, 1),) if may_be_one(size) else ()
        return (*one, (0.0, 1 / (size if isinstance(size, int) else 3)))

    def radius(self, u, y, x):
        d = x.amax(self.axis, keepdim=True) - x
        return u * y * (12 + 2 * d + growth(x.shape[self.axis]))


@operator
class LogSoftmax(AlongAxis):
    within = (-math.inf, 0.0)

    def torch(self, x):
        return torch.log_softmax(x, self.axis)

    def along(self, x):
        least, most = exponential_sums(x, self.axis)
        return Box(-most.log(), -least.log())

    def value_range(self, x):
        return -math.inf, 0.0

    def certain(self, x):
        """The least one is -log(size) at most."""
        size = x.shape[self.axis]
        zero = ((0, 0),) if may_be_one(size) else ()
        return (*zero, (-math.inf, -math.log(size if isinstance(size, int) else 3)))

    def radius(self, u, y, x):
        d = x.amax(self.axis, keepdim=True) - x
        return u * (4 * y.abs() + 8 + 2 * d + growth(x.shape[self.axis]))


@operator
class Hardmax(AlongAxis):
    """1 for the first one of the largest elements, 0 for the others. Source: ONNX Hardmax-13."""

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
        return Box(sure.to(x.lo.dtype), may.to(x.lo.dtype))

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

    def infer_input_types(self, draw, first, dtypes, output):
        return self.complete(draw, TensorType(dtypes[0], output.shape), dtypes)


def across(v, x):
    """A vector of length C, shaped to broadcast over (N, C, *S)."""
    return v.reshape(x.shape[1], *[1] * (x.dim() - 2))


def channelwise(boxes, x):
    """Boxes of vectors of length C, shaped to broadcast over (N, C, *S)."""
    for b in boxes:
        mask = None if b.any is None else across(b.any, x.lo)
        lo = across(b.lo, x.lo)
        yield Box(lo, lo if b.exact else across(b.hi, x.lo), mask)


@operator
class BatchNormalization(PerChannel):
    """Inference: statistics are inputs. Source: ONNX BatchNormalization-15."""

    inputs = (In("T", FLOATS, (2, 5)), *[CHANNEL] * 4)
    valid = (None, None, None, None, (0.0, math.inf))

    def torch(self, x, scale, bias, mean, var):
        return torch.nn.functional.batch_norm(x, mean, var, scale, bias, False, 0.0, self.eps)

    def proxy(self, x, scale, bias, mean, var):
        """PyTorch's has no derivatives with respect to mean and variance."""
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
        """scale * x and scale * mean may come first."""
        whole = across(scale.abs(), x) * (x.abs() + across(mean.abs(), x))
        return [
            -var,
            whole - largest(x) / 4,
            self._parts(x, scale, bias, mean, var) - largest(x) / 4,
        ]

    def radius(self, u, y, *xs):
        return 8 * u * self._parts(*xs)


@operator
class InstanceNormalization(PerChannel):
    """Statistics over the spatial axes of each instance. Source: ONNX InstanceNormalization-6."""

    inputs = (In("T", FLOATS, (3, 5)), CHANNEL, CHANNEL)

    def torch(self, x, scale, bias):
        d, s = centred(x, tuple(range(2, x.dim())), self.eps)
        return d / s * across(scale, x) + across(bias, x)

    def interval(self, x, *vectors):
        d = centred_box(x, tuple(range(2, x.lo.dim())), self.eps)
        return [affine(d, *channelwise(vectors, x))]

    def domain(self, x, scale, bias):
        """Sums of squares must stay finite."""
        return [x.abs() - math.sqrt(largest(x) / (8 * x[0, 0].numel()))]

    def radius(self, u, y, x, scale, bias):
        axes = tuple(range(2, x.dim()))
        shifted = 2 * u * (y.abs() + 2 * across(bias, x).abs())
        return shifted + centred_radius(u, x, axes, self.eps, across(scale, x))


@operator
class LayerNormalization(Normalization):
    """Statistics over the trailing axes from `axis` on; scale and optional bias of their shape.

    One ONNX operator from opset 17 on, a composition below and for float64, whose statistics the
    operator may compute in float32. Source: ONNX LayerNormalization-17.
    """

    inputs = (
        In("T", FLOATS, (1, 5)),
        In("T", ranks=(1, 5), weight=True),
        In("T", ranks=(1, 5), weight=True),
    )
    variadic = (2, 3)
    axis = AXIS

    def requires(self, x, *vectors):
        yield -x.rank <= self.axis < x.rank
        tail = x.shape[self.axis % x.rank :]
        for v in vectors:
            yield v.rank == len(tail)
            yield from (a == b for a, b in zip(v.shape, tail))

    def complete(self, draw, first, dtypes):
        tail = first.shape[self.axis % first.rank :]
        return [first, *(TensorType(d, tail) for d in dtypes[1:])]

    def infer_input_types(self, draw, first, dtypes, output):
        return self.complete(draw, TensorType(dtypes[0], output.shape), dtypes)

    def certain(self, x, scale, *bias):
        """Without a bias: zero if there is one number only, and both signs where scales agree."""
        if bias:
            return ()
        zero = ((0, 0),) if may_be_one(*scale.shape) else ()
        return (*zero, (-math.inf, 0.0))

    def torch(self, x, scale, bias=None):
        d, s = centred(x, trailing(self.axis, x.dim()), self.eps)
        y = d / s * scale
        return y if bias is None else y + bias

    def interval(self, x, scale, bias=None):
        return [affine(centred_box(x, trailing(self.axis, x.lo.dim()), self.eps), scale, bias)]

    def onnx(self, emit, x, scale, *bias):
        type_ = emit.type(x)
        if emit.opset >= 17 and type_.dtype is not DType.FLOAT64:
            values = (x, scale, *bias)
            return emit("LayerNormalization", *values, axis=self.axis, epsilon=self.epsilon)
        axes = trailing(self.axis, type_.rank)
        d = emit("Sub", x, mean_of(emit, x, axes))
        variance = mean_of(emit, emit("Mul", d, d), axes)
        s = emit("Sqrt", emit("Add", variance, emit.const(self.eps, type_.dtype)))
        y = emit("Mul", emit("Div", d, s), scale)
        return emit("Add", y, *bias) if bias else y

    def domain(self, x, scale, *bias):
        """Sums of squares must stay finite."""
        count = x.numel() // max(1, math.prod(x.shape[: self.axis % x.dim()]))
        return [x.abs() - math.sqrt(largest(x) / (8 * count))]

    def radius(self, u, y, x, scale, *bias):
        shifted = 2 * u * (y.abs() + sum(2 * b.abs() for b in bias))
        return shifted + centred_radius(u, x, trailing(self.axis, x.dim()), self.eps, scale)
