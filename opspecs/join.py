"""Joining, splitting and repeating along axes."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.expr import total
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.operand import Operands
from nnfuzz.operators.families.shape import Along, DataMovement, resized
from nnfuzz.operators.families.window import per_axis
from nnfuzz.operators.operator import In, operator


@operator
class Tile(Operands, DataMovement):
    merges = ("Tile",)
    takes_empty = True
    copies = True
    inputs = (In("T", ALL, (1, 5)),)
    repeats = per_axis(1, 1, 2, 3, same=0, skipped=0)

    def requires(self, x):
        yield len(self.repeats) == x.rank
        yield all(r >= 0 for r in self.repeats)

    def type_transfer(self, x):
        return [x.with_shape([d * r for d, r in zip(x.shape, self.repeats)])]

    def torch(self, x):
        return x.repeat(self.repeats)

    def onnx(self, emit, x):
        return emit("Tile", x, self.integers(emit, x, self.repeats))


@operator
class Concat(Along, DataMovement):
    merges = ("Split", "Concat")
    takes_empty = True
    inputs = (In("T", ALL, (1, 5)), In("T", ranks=(1, 5)))
    variadic = (1, 4)

    def requires(self, first, *others):
        yield from super().requires(first)
        at = self.axis % first.rank
        for other in others:
            yield other.rank == first.rank
            for i, (a, b) in enumerate(zip(first.shape, other.shape)):
                if i != at and a is not b:
                    yield a == b

    def type_transfer(self, *inputs):
        return [resized(inputs[0], self.axis, total(t.shape[self.axis] for t in inputs))]

    def complete(self, draw, first, dtypes):
        return [first, *(resized(first, self.axis, draw.dim(first.rank)) for _ in dtypes[1:])]

    def infer_input_types(self, draw, first, dtypes, output):
        like = TensorType(dtypes[0], output.shape)
        return [resized(like, self.axis, draw.dim(output.rank)) for _ in dtypes]

    @classmethod
    def draw_backward(cls, draw, first, output):
        return cls.draw(draw, first)

    def torch(self, *xs):
        return torch.cat(xs, self.axis)


def _parts(draw, *_):
    """Sizes of two to four parts; one of them is 0 now and then."""
    parts = [draw.var("s", 1, 48) for _ in range(draw.integer(2, 4))]
    if draw.chance(0.06):
        parts[draw.integer(0, len(parts) - 1)] = 0
    return tuple(parts)


@operator
class Split(Along, Operands, DataMovement):
    """Two to four parts of any sizes along one axis; written with `num_outputs` where the sizes
    agree with it."""

    merges = ("Concat",)
    takes_empty = True
    inputs = (In("T", ALL, (1, 5)),)
    split = Choice(by=_parts)

    def requires(self, x):
        yield from super().requires(x)
        yield all(not isinstance(s, int) or s >= 0 for s in self.split)
        yield total(self.split) == x.shape[self.axis]

    def type_transfer(self, x):
        return [resized(x, self.axis, size) for size in self.split]

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        axis = fields["axis"]
        return cls(axis=axis, split=tuple(part.shape[axis] for part in gives))

    def infer_input_types(self, draw, first, dtypes, output):
        return [resized(TensorType(dtypes[0], output.shape), self.axis, total(self.split))]

    def torch(self, x):
        return torch.split(x, self.split, self.axis)

    def onnx(self, emit, x):
        count = len(self.split)
        if emit.opset >= 18 and len(set(self.split)) == 1:
            return emit("Split", x, outputs=count, axis=self.axis, num_outputs=count)
        # Below opset 13 they become an attribute (nnfuzz.materialize.older).
        computed = emit.opset >= 13
        given = self.split
        sizes = self.integers(emit, x, given) if computed else emit.const(given, DType.INT64)
        return emit("Split", x, sizes, outputs=count, axis=self.axis)
