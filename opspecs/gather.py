"""Picking elements by index."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.families.index import INDICES, Indexed, from_front, shape_within, span
from nnfuzz.operators.families.shape import AXIS
from nnfuzz.operators.intervals import Interval, hull
from nnfuzz.operators.operator import In, OpSpec, operator
from nnfuzz.operators.unexportable import DECOMPOSED


@operator
class GatherElements(Indexed):
    """One element of `data` per index, taken from the index's own position except along the axis.

    Source: ONNX GatherElements-13; torch.gather.
    """

    copies = picks = True
    inputs = (In("T", ALL, (1, 5)), In("I", INDICES, (1, 5), index=True))
    axis = AXIS

    def requires(self, data, indices):
        yield -data.rank <= self.axis < data.rank == indices.rank
        for i, (have, taken) in enumerate(zip(data.shape, indices.shape)):
            yield i == self.axis % data.rank or taken <= have

    def type_transfer(self, data, indices):
        return [data.with_shape(indices.shape)]

    def complete(self, draw, first, dtypes):
        return [
            first,
            TensorType(dtypes[1], shape_within(draw, first.shape, [self.axis % first.rank])),
        ]

    def infer_input_types(self, draw, first, dtypes, output):
        at = self.axis % first.rank
        data = tuple(
            f if i == at or draw.chance(0.3) else o
            for i, (f, o) in enumerate(zip(first.shape, output.shape))
        )
        return [TensorType(dtypes[0], data), TensorType(dtypes[1], output.shape)]

    def integer_range(self, data, indices):
        return None, span(data.shape[self.axis])

    def torch(self, data, indices):
        return torch.gather(data, self.axis, from_front(indices, data.shape[self.axis]))


@operator
class GatherND(Indexed):
    """Slices of `data` by index tuples, the last axis of `indices`; batches pair up.

    Source: ONNX GatherND-13.
    """

    since = 12
    copies = picks = True
    unexportable = DECOMPOSED
    inputs = (In("T", ALL, (1, 5)), In("I", INDICES[:1], (1, 6), index=True))
    batch_dims = Choice(
        by=lambda draw, op, first, *_: (
            draw.integer(0, min(2, first.rank - 1)) if draw.chance(0.5) else 0
        )
    )
    depth = Choice(by=lambda draw, op, first, *_: draw.integer(1, first.rank - op.batch_dims))

    def requires(self, data, indices):
        b = self.batch_dims
        yield 0 <= b < min(data.rank, indices.rank)
        yield 1 <= self.depth <= data.rank - b
        yield indices.shape[-1] == self.depth
        for have, taken in zip(data.shape[:b], indices.shape[:b]):
            yield have == taken

    def type_transfer(self, data, indices):
        rest = data.shape[self.batch_dims + self.depth :]
        return [data.with_shape((*indices.shape[:-1], *rest))]

    def complete(self, draw, first, dtypes):
        batch = first.shape[: self.batch_dims]
        count = draw.integer(0, 4 - max(len(batch), first.rank - self.depth))
        shape = (*batch, *(draw.dim(count + 2) for _ in range(count)), self.depth)
        return [first, TensorType(dtypes[1], shape)]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.integer(max(1, output_rank - 2), min(5, output_rank + 2))

    @classmethod
    def draw_backward(cls, draw, first, output):
        """Draws no more batch axes and no more remaining axes than the output has."""
        op = cls.draw(draw, first)
        op.__dict__["batch_dims"] = b = min(op.batch_dims, output.rank, first.rank - 1)
        least = max(1, first.rank - output.rank)
        op.__dict__["depth"] = draw.integer(min(least, first.rank - b), first.rank - b)
        return op

    def infer_input_types(self, draw, first, dtypes, output):
        b, rest = self.batch_dims, first.rank - self.batch_dims - self.depth
        cut = output.rank - rest
        data = (*output.shape[:b], *first.shape[b : b + self.depth], *output.shape[cut:])
        indices = (*output.shape[:cut], self.depth)
        return [TensorType(dtypes[0], data), TensorType(dtypes[1], indices)]

    def integer_range(self, data, indices):
        sizes = data.shape[self.batch_dims : self.batch_dims + self.depth]
        return None, span(min(sizes))

    def torch(self, data, indices):
        b, q = self.batch_dims, indices.dim() - 1
        at = [
            torch.arange(indices.shape[i]).reshape([-1 if j == i else 1 for j in range(q)])
            for i in range(b)
        ]
        for i in range(self.depth):
            at.append(from_front(indices[..., i], data.shape[b + i]))
        return data[tuple(at)]

    def onnx(self, emit, data, indices):
        return emit("GatherND", data, indices, batch_dims=self.batch_dims)


@operator
class ReverseSequence(Indexed):
    """Reverses the first elements along the time axis, as many as each batch's length says.

    Source: ONNX ReverseSequence-10.
    """

    inputs = (In("T", ALL, (2, 5)), In("I", INDICES[:1], (1, 1), index=True))
    batch_axis = Choice((0, 1))

    def requires(self, x, lengths):
        yield lengths.shape[0] == x.shape[self.batch_axis]

    def complete(self, draw, first, dtypes):
        return [first, TensorType(dtypes[1], (first.shape[self.batch_axis],))]

    def integer_range(self, x, lengths):
        return None, (0, x.shape[1 - self.batch_axis])

    def torch(self, x, lengths):
        step = torch.arange(x.shape[1 - self.batch_axis])
        step, lengths = step.unsqueeze(self.batch_axis), lengths.unsqueeze(1 - self.batch_axis)
        source = torch.where(step < lengths, lengths - 1 - step, step)
        source = source.reshape(*x.shape[:2], *[1] * (x.dim() - 2))
        return torch.gather(x, 1 - self.batch_axis, source.expand(x.shape))

    def onnx(self, emit, x, lengths):
        return emit(
            self.name, x, lengths, batch_axis=self.batch_axis, time_axis=1 - self.batch_axis
        )


@operator
class OneHot(OpSpec):
    """values[1] where the position on the new axis equals the index, values[0] elsewhere.

    Negative indices count from the end. Floats are rounded down before the operator: ONNX casts
    them to int64, but runtimes do not handle fractions. Source: ONNX OneHot-11.
    """

    copies = True
    unexportable = DECOMPOSED
    inputs = (In("I", (*INDICES, DType.FLOAT32, DType.UINT8), (1, 4)), In("T", ALL, (1, 1)))
    modular = True
    axis = Choice(by=lambda draw, op, first, *_: draw.integer(-first.rank - 1, first.rank))
    depth = Sym(1, 32)

    def requires(self, indices, values):
        yield -indices.rank - 1 <= self.axis <= indices.rank
        yield self.depth >= 1
        yield values.shape[0] == 2

    def type_transfer(self, indices, values):
        shape = list(indices.shape)
        shape.insert(self.axis % (indices.rank + 1), self.depth)
        return [values.with_shape(shape)]

    def complete(self, draw, first, dtypes):
        return [first, TensorType(dtypes[1], (2,))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return output_rank - 1 if output_rank > 1 else None

    def infer_input_types(self, draw, first, dtypes, output):
        shape = list(output.shape)
        del shape[self.axis % output.rank]
        return self.complete(draw, TensorType(dtypes[0], tuple(shape)), dtypes)

    def domain(self, indices, values):
        """Floats must be small enough to hold every integer."""
        return [indices.abs() - 1e6] if indices.is_floating_point() else []

    def margins(self, indices, values):
        return [(indices - indices.round()).abs()] if indices.is_floating_point() else []

    def value_range(self, indices, values):
        return values

    def hot(self, indices):
        """Mask of the output elements that are values[1]."""
        place = from_front(_floor(indices), self.depth)
        axis = self.axis % (indices.dim() + 1)
        slots = torch.arange(self.depth)
        slots = slots.reshape([-1 if i == axis else 1 for i in range(indices.dim() + 1)])
        return place.unsqueeze(axis) == slots

    def torch(self, indices, values):
        return torch.where(self.hot(indices), values[1:], values[:1])

    def interval(self, indices, values):
        low, high = self.hot(indices.lo), self.hot(indices.hi)
        axis = self.axis % (indices.lo.dim() + 1)
        known = (_floor(indices.lo) == _floor(indices.hi)).unsqueeze(axis)
        off, on = Interval(values.lo[0], values.hi[0]), Interval(values.lo[1], values.hi[1])
        lo, hi = hull([off.lo, on.lo])[0], hull([off.hi, on.hi])[1]
        lo = torch.where(known, torch.where(low, on.lo, off.lo), lo)
        hi = torch.where(known, torch.where(high, on.hi, off.hi), hi)
        mask = torch.where(low, values.mask()[1], values.mask()[0])
        mask = torch.where(known, mask, values.mask().any()) | indices.mask().unsqueeze(axis)
        return [Interval(lo, hi, mask)]

    def onnx(self, emit, indices, values):
        """The depth has the indices' dtype, or int64 for float indices with integer values."""
        dtype = emit.type(indices).dtype
        if dtype.is_float:
            indices = emit("Floor", indices)
        if dtype.is_float and not emit.type(values).dtype.is_float:
            dtype = DType.INT64
        return emit("OneHot", indices, emit.const(self.depth, dtype), values, axis=self.axis)


def _floor(x):
    return x.floor() if x.is_floating_point() else x
