"""Tensors that depend on the shape of another tensor and not on its values."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch

from nnfuzz.ir.dtypes import ALL, FLOATS, SIGNED, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.shape import AXIS_OR_NONE, CLOSINGS, OpenSize, Zeros, extent, resized
from nnfuzz.operators.intervals import Interval, everywhere
from nnfuzz.operators.operator import ANY_RANGE, In, OpSpec, operator
from nnfuzz.operators.unexportable import DECOMPOSED

SOURCE = Choice(("computed", "constant"))
"""Whether the model computes the result from the shape, or holds it as an initializer."""


FEW = (*FLOATS[:3], DType.INT64, DType.INT32, DType.BOOL)
"""Input dtypes of operators that choose their output's dtype; probing all pairs would cost too
much."""
LISTED = {DType.FLOAT32: "value_float", DType.INT64: "value_int"}


def _listable(x):
    """Whether Constant can write the tensor as a list or a number."""
    return x.dtype in LISTED and x.rank < 2


class Shaped(OpSpec):
    """Base of operators that read only the shape of their input: the output is always exact."""

    edges = True
    takes_empty = True
    modular = True
    constant = True
    weight = 0.5

    def interval(self, x):
        y = self.torch(x.lo)
        return [Interval(y, y)]


class Counting(Shaped):
    """A number of elements, as a scalar."""

    output = DType.INT64

    def counted(self, x):
        """The size or sizes whose product is the number."""
        raise NotImplementedError

    def type_transfer(self, x):
        return [TensorType(DType.INT64, ())]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return None if output_rank else draw.integer(cls.inputs[0].ranks[0], 5)

    def value_range(self, x):
        return 1, math.inf

    def torch(self, x):
        return torch.ones(self.counted(x), dtype=torch.int64).sum()


class Filled(Shaped):
    """Numbers of a chosen dtype."""

    inputs = (In("T", FEW),)
    output = "dtype"
    dtype = Choice(ALL)


def _start(draw, op, x, *_):
    """The first axis, counted from either end, or a number below all axes."""
    first = draw.integer(0, max(0, x.rank - 1))
    if not first and draw.chance(0.1):
        return -x.rank - draw.integer(1, 3)
    return first - draw.choice((0, x.rank))


def _end(draw, op, x, *_):
    """An axis behind the first one, counted from either end, or a number beyond all axes; now and
    then none is left."""
    first = slice(op.start, None).indices(x.rank)[0]
    if draw.chance(0.04):
        return draw.integer(-x.rank - 2, first)
    last = draw.integer(min(first + 1, x.rank), x.rank)
    if last == x.rank:
        return last + draw.choice((0, 0, 0, 1, 5))
    return last - draw.choice((0, x.rank))


@operator
class Shape(Shaped):
    """The sizes of axes from `start` on, before `end`, both clamped. Source: ONNX Shape-15."""

    output = DType.INT64
    start = Choice(by=_start)
    end = Choice(by=_end)

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        end = fields.get("end")
        return cls(start=fields.get("start") or 0, end=takes[0].rank if end is None else end)

    def type_transfer(self, x):
        return [TensorType(DType.INT64, (len(x.shape[self.start : self.end]),))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.integer(1, 5) if output_rank == 1 else None

    def value_range(self, x):
        return 1, math.inf

    def torch(self, x):
        if torch.jit.is_tracing():  # type: ignore[attr-defined]  # which numbers would not survive
            return torch._shape_as_tensor(x)[self.start : self.end]
        return torch.tensor(x.shape[self.start : self.end], dtype=torch.int64)

    def onnx(self, emit, x):
        """Attributes from opset 15 on, where they differ from their defaults; a Slice below."""
        start, end = (self.start or None), (self.end if self.end != emit.type(x).rank else None)
        if emit.opset >= 15:
            return emit("Shape", x, start=start, end=end)
        bounds = [emit.const([b], DType.INT64) for b in (self.start, self.end)]
        return emit("Slice", emit("Shape", x), *bounds)


@operator
class Size(Counting):
    """The number of elements. Source: ONNX Size-13."""

    def counted(self, x):
        return x.shape


@operator
class EyeLike(Zeros, Filled):
    """A matrix with 1 on one diagonal and 0 elsewhere. Source: ONNX EyeLike-9."""

    inputs = (In("T", FEW, (2, 2)),)
    whole = "always"
    k = Choice((0, 0, 1, -1, 2, -3))

    def value_range(self, x):
        return 0, 1

    def torch(self, x):
        rows, columns = (torch.arange(n) for n in x.shape)
        return (rows.unsqueeze(1) + self.k == columns).to(self.dtype.torch)


@operator
class ConstantOfShape(Filled):
    """A tensor filled with one number. Source: ONNX ConstantOfShape-9."""

    number = Choice((0, 0, 1, 2, 7))
    whole = "always"
    source = SOURCE

    def value_range(self, x):
        number = min(self.number, self.dtype.limits[1])
        return number, number

    def torch(self, x):
        return torch.full(x.shape, self.number, dtype=self.dtype.torch)

    def onnx(self, emit, x):
        computed = self.source == "computed"
        shape = emit("Shape", x) if computed else emit.const(emit.type(x).shape, DType.INT64)
        value = np.array([self.number]).astype(self.dtype.numpy)
        return emit("ConstantOfShape", shape, value=value)


@operator
class Range(Filled):
    """Equally spaced numbers, as many as the input, or one axis of it, has elements.

    Floats advance in quarters, which is exact. Source: ONNX Range-11.
    """

    inputs = (In("T", FEW, (1, 5)),)
    dtype = Choice((*FLOATS[:2], *SIGNED[1:]))
    axis = AXIS_OR_NONE
    start = Choice((0, 0, 1, -5, 12))
    delta = Choice((1, 1, 2, -1, 4, -3))
    source = SOURCE

    def requires(self, x):
        yield self.axis is None or -x.rank <= self.axis < x.rank
        yield self.dtype is not DType.INT16 or extent(x, self.axis) <= 8000  # 4 * 8000 fits

    def _step(self):
        return self.delta / 4 if self.dtype.is_float else self.delta

    def type_transfer(self, x):
        return [TensorType(self.dtype, (extent(x, self.axis),))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.integer(1, 5) if output_rank == 1 else None

    def infer_input_types(self, draw, first, dtypes, output):
        if self.axis is None:
            return [first]
        return [resized(first, self.axis, output.shape[0])]

    def value_range(self, x):
        return (-math.inf, self.start) if self.delta < 0 else (self.start, math.inf)

    def certain(self, x):
        """The first number occurs, and 0 where the numbers pass it."""
        first = (self.start, self.start)
        return (first, (0, 0)) if self.start * self.delta < 0 else (first,)

    def torch(self, x):
        count = math.prod(x.shape) if self.axis is None else x.shape[self.axis]
        return (torch.arange(count) * self._step() + self.start).to(self.dtype.torch)

    def onnx(self, emit, x):
        """For integers the limit is computed in int64, because Mul does not take all integer
        dtypes."""
        start, delta = (emit.const(v, self.dtype) for v in (self.start, self._step()))
        if self.source == "constant":
            limit = self.start + extent(emit.type(x), self.axis) * self._step()
            return emit("Range", start, emit.const(limit, self.dtype), delta)
        if self.axis is None:
            count = emit("Size", x)
        else:
            count = emit("Gather", emit("Shape", x), emit.const(self.axis, DType.INT64))
        wide = self.dtype if self.dtype.is_float else DType.INT64
        count = emit("Mul", emit("Cast", count, to=wide), emit.const(self._step(), wide))
        limit = emit("Add", count, emit.const(self.start, wide))
        return emit("Range", start, emit("Cast", limit, to=self.dtype), delta)


@operator
class RangeUpTo(OpenSize):
    """Equally spaced integers up to a limit that is computed. Source: ONNX Range-11."""

    unexportable = DECOMPOSED
    inputs = (In("T", (DType.INT64, DType.INT32), (0, 0)),)
    valid = ((-16, 48),)
    start = Choice((0, 0, 0, 1, -3))
    delta = Choice((1, 1, 2, 3, -1))
    closing = Choice(
        lambda op, x, *_: CLOSINGS if x.dtype is DType.INT64 else ("filled", "sum"),
        default="filled",
    )

    def requires(self, limit):
        yield self.closing != "shape" or limit.dtype is DType.INT64
        yield self.delta != 0
        yield self.size >= 1

    def type_transfer(self, limit):
        return [self.closed(limit.with_shape((1,)))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return 0 if output_rank < 2 else None

    def certain(self, limit):
        return ((0, 0),) if self.closing == "filled" else ()

    def value_range(self, limit):
        if self.closing == "filled":
            return min(self.start, limit[0], 0), max(self.start, limit[1], 0)
        return (0, math.inf) if self.closing == "shape" else ANY_RANGE

    def torch(self, limit):
        end = int(limit) if (int(limit) - self.start) * self.delta > 0 else self.start
        return self.closed_tensor(torch.arange(self.start, end, self.delta, dtype=limit.dtype))

    def interval(self, limit):
        y = self.torch(limit.lo)
        return [Interval(y, y, everywhere(y, limit.unsure))]

    def onnx(self, emit, limit):
        type_ = emit.type(limit)
        start, delta = (emit.const(number, type_.dtype) for number in (self.start, self.delta))
        return self.emit_closed(emit, emit("Range", start, limit, delta), type_.with_shape((1,)))


@operator
class Constant(Shaped):
    """Random numbers in the node itself, instead of an initializer. Source: ONNX Constant-13.

    style: where the model keeps the numbers. "tensor", "list": in an attribute of the node.
    "initializer": in an initializer of the body that the operator is in, which may return it
    directly; outside of bodies, an Identity reads the initializer.
    """

    since = 12
    weight = 0.3
    whole = "always"
    seed = Choice(by=lambda draw, *_: draw.integer(0, 999))
    style = Choice(
        lambda op, x: (
            ("tensor", "list", "list", "initializer") if _listable(x) else ("tensor", "initializer")
        )
    )
    unset: ClassVar = {
        **dict.fromkeys(("value_string", "value_strings"), "no operator takes strings"),
        "sparse_value": "no reference implementation reads it (onnx 1.23)",
    }

    def _numbers(self, shape, is_float, is_bool):
        lo, hi = (-4, 4) if is_float else (0, 1 if is_bool else 4)
        return np.asarray(np.random.default_rng(self.seed).integers(lo, hi + 1, shape))

    def value_range(self, x):
        return -4, 4

    def certain(self, x):
        """Values that a random constant of more than a few elements nearly always contains."""
        return (0, 0), (-4, -4), (4, 4)

    def torch(self, x):
        numbers = self._numbers(x.shape, x.is_floating_point(), x.dtype is torch.bool)
        return torch.from_numpy(numbers).to(x.dtype)

    def onnx(self, emit, x):
        """A list or a single number of float32 or int64 has its own attribute."""
        shape, dtype = emit.type(x).shape, emit.type(x).dtype
        value = self._numbers(shape, dtype.is_float, dtype.is_bool).astype(dtype.numpy)
        if self.style == "initializer":
            return emit.const(value, dtype)
        if self.style != "list" or not _listable(emit.type(x)):
            return emit("Constant", value=value)
        return emit("Constant", **{LISTED[dtype] + "s" * len(shape): value.tolist()})
