"""Detours through sequences of tensors; inputs and outputs are tensors."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.shape import Along, DataMovement, signed
from nnfuzz.operators.operator import In, OpSpec, operator

from .constant import Counting
from .join import Concat


@operator
class ConcatFromSequence(Concat):
    """Concat by way of a sequence. Source: ONNX ConcatFromSequence-11."""

    def onnx(self, emit, *xs):
        return emit("ConcatFromSequence", emit("SequenceConstruct", *xs), axis=self.axis)


def _number(chance):
    """Draws a number for `_place`, or None with a probability of 1 - chance."""
    return Choice(by=lambda draw, *_: draw.integer(0, 23) if draw.chance(chance) else None)


def _place(number, count):
    """A position among `count`, negative if it is counted from the end."""
    return number % (2 * count) - count


@operator
class SequenceAt(OpSpec):
    """One of the inputs; the last may have been inserted, and one of them erased.

    With `empty`, all have been inserted in turn. Source: ONNX SequenceAt-11, SequenceInsert-11,
    SequenceErase-11, SequenceEmpty-11.
    """

    inputs = (In("T", ALL), In("T"))
    variadic = (2, 4)
    modular = True
    empty = Choice((0, 0, 1))
    insert = _number(0.5)
    erase = _number(0.3)
    position = _number(1)

    def _picked(self, count):
        """The number of the input that is the result."""
        items = list(range(count))
        if self.insert is not None:
            last = items.pop()
            items.insert(_place(self.insert, len(items)), last)
        if self.erase is not None:
            del items[_place(self.erase, count)]
        return items[_place(self.position, len(items))]

    def type_transfer(self, *xs):
        return [xs[self._picked(len(xs))]]

    def complete(self, draw, first, dtypes):
        return [first, *(draw.tensor(d, draw.integer(0, 4)) for d in dtypes[1:])]

    def infer_input_types(self, draw, first, dtypes, output):
        types = self.complete(draw, first, dtypes)
        types[self._picked(len(types))] = output
        return types

    def value_range(self, *ranges):
        return ranges[self._picked(len(ranges))]

    def interval(self, *intervals):
        return [intervals[self._picked(len(intervals))]]

    def torch(self, *xs):
        return xs[self._picked(len(xs))].clone()

    def onnx(self, emit, *xs):
        def place(number, count):
            return emit.const(_place(number, count), DType.INT64)

        left = len(xs)
        first = xs if self.insert is None else xs[:-1]
        if self.empty:
            sequence = emit("SequenceEmpty", dtype=emit.type(xs[0]).dtype)
            for x in first:
                sequence = emit("SequenceInsert", sequence, x)
        else:
            sequence = emit("SequenceConstruct", *first)
        if self.insert is not None:
            sequence = emit("SequenceInsert", sequence, xs[-1], place(self.insert, left - 1))
        if self.erase is not None:
            sequence = emit("SequenceErase", sequence, place(self.erase, left))
            left -= 1
        return emit("SequenceAt", sequence, place(self.position, left))


@operator
class SplitToSequence(Along, DataMovement):
    """Two or three equal parts along an axis, then stacked along a new one or joined along another.

    Source: ONNX SplitToSequence-11, ConcatFromSequence-11.
    """

    inputs = (In("T", ALL, (1, 4)),)
    parts = Choice((2, 2, 3))
    stacked = Choice((0, 1))
    target = Choice(
        by=lambda draw, op, x, *_: signed(
            draw, [draw.integer(0, x.rank - 1 + op.stacked)], x.rank + op.stacked
        )[0]
    )
    style = Choice(("scalar", "list"))

    def requires(self, x):
        yield from super().requires(x)
        yield -x.rank - self.stacked <= self.target < x.rank + self.stacked
        yield x.shape[self.axis] % self.parts == 0

    def type_transfer(self, x):
        shape = list(x.shape)
        shape[self.axis] = shape[self.axis] // self.parts
        if self.stacked:
            shape.insert(self.target % (x.rank + 1), self.parts)
        else:
            shape[self.target] = shape[self.target] * self.parts
        return [x.with_shape(shape)]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return output_rank - (1 if output_rank > 1 and draw.chance(0.5) else 0)

    def infer_input_types(self, draw, first, dtypes, output):
        """A stack determines every size; otherwise the solver chooses those of the two axes."""
        if self.stacked and output.rank == first.rank + 1:
            shape = list(output.shape)
            del shape[self.target % output.rank]
            shape[self.axis] = shape[self.axis] * self.parts
            return [TensorType(dtypes[0], tuple(shape))]
        return [first]

    def torch(self, x):
        parts = x.split([x.shape[self.axis] // self.parts] * self.parts, self.axis)
        return torch.stack(parts, self.target) if self.stacked else torch.cat(parts, self.target)

    def onnx(self, emit, x):
        size = emit.type(x).shape[self.axis] // self.parts
        split = emit.const(size if self.style == "scalar" else [size] * self.parts, DType.INT64)
        sequence = emit("SplitToSequence", x, split, axis=self.axis)
        return emit("ConcatFromSequence", sequence, axis=self.target, new_axis=self.stacked)


@operator
class SequenceLength(Along, Counting):
    """The size of an axis: the length of a sequence of slices. Source: ONNX SequenceLength-11."""

    inputs = (In("T", ALL, (1, 5)),)
    keepdims = Choice((0, 1))

    def counted(self, x):
        return x.shape[self.axis]

    def onnx(self, emit, x):
        slices = emit("SplitToSequence", x, axis=self.axis, keepdims=self.keepdims)
        return emit("SequenceLength", slices)


@operator
class OptionalGetElement(DataMovement):
    """The input, wrapped in an optional and taken out again. Source: ONNX OptionalGetElement-15,
    Optional-15."""

    since = 15
    torch = staticmethod(torch.clone)

    def onnx(self, emit, x):
        return emit("OptionalGetElement", emit("Optional", x))
