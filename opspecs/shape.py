"""Shapes: regrouping, permuting, repeating, joining and splitting."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.expr import IntExpr, and_, maximum, or_, product, total
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.families.axes import AXIS, positive, signed
from nnfuzz.spec.families.shape import Moving, regrouped, same_product
from nnfuzz.spec.operator import In, operator


@operator
class Reshape(Moving):
    """To any shape with as many elements. Source: ONNX Reshape-13."""

    shape = Choice(by=lambda draw, op, first, *_: regrouped(draw, first.shape))
    inferred = Choice(by=lambda draw, op, *_: draw.integer(-1, len(op.shape) - 1))

    def requires(self, x):
        yield self.inferred < len(self.shape)
        yield same_product(self.shape, x.shape)

    def type_transfer(self, x):
        return [x.with_shape(self.shape)]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.integer(max(0, output_rank - 2), min(5, output_rank + 2))

    def infer_input_types(self, draw, first, dtypes, output):
        return [first]

    def torch(self, x):
        return x.reshape(self.shape)

    def onnx(self, emit, x):
        """One dimension is left for the compiler to infer where `inferred` says so."""
        shape = [-1 if i == self.inferred else d for i, d in enumerate(self.shape)]
        return emit("Reshape", x, emit.const(shape, DType.INT64))


@operator
class Transpose(Moving):
    perm = Choice(by=lambda draw, op, first, *_: tuple(draw.shuffled(range(first.rank))))

    def requires(self, x):
        yield sorted(self.perm) == list(range(x.rank))

    def type_transfer(self, x):
        return [x.with_shape([x.shape[p] for p in self.perm])]

    def infer_input_types(self, draw, first, dtypes, output):
        shape = tuple(output.shape[self.perm.index(i)] for i in range(output.rank))
        return [TensorType(dtypes[0], shape)]

    def torch(self, x):
        return x.permute(self.perm)


def _squeezed(draw, op, first, *_):
    """Axes of size 1 if there are any, else axes that may be 1."""
    ones = [i for i, d in enumerate(first.shape) if isinstance(d, int) and d == 1]
    able = [i for i, d in enumerate(first.shape) if isinstance(d, IntExpr) and d.lo <= 1]
    pool = ones or able or range(first.rank)
    return signed(draw, draw.subset(pool, 1, 1 if draw.chance(0.7) else 2), first.rank)


@operator
class Squeeze(Moving):
    inputs = (In("T", ALL, (1, 5)),)
    axes = Choice(by=_squeezed)

    def requires(self, x):
        yield all(-x.rank <= a < x.rank for a in self.axes)
        yield len(set(positive(self.axes, x.rank))) == len(self.axes) > 0
        yield and_(*(x.shape[a] == 1 for a in self.axes))

    def type_transfer(self, x):
        gone = positive(self.axes, x.rank)
        return [x.with_shape([d for i, d in enumerate(x.shape) if i not in gone])]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return output_rank + (1 if draw.chance(0.7) else 2)

    def infer_input_types(self, draw, first, dtypes, output):
        if first.rank != output.rank + len(self.axes):
            return [first]
        shape = list(output.shape)
        for axis in sorted(positive(self.axes, first.rank)):
            shape.insert(axis, 1)
        return [TensorType(dtypes[0], tuple(shape))]

    def torch(self, x):
        for axis in sorted(positive(self.axes, x.dim()), reverse=True):
            x = x.squeeze(axis)
        return x

    def onnx(self, emit, x):
        return emit(self.name, x, emit.const(list(self.axes), DType.INT64))


def _unsqueezed(draw, op, first, *_):
    """One or two axes of the result, which has rank 5 at most."""
    count = 1 if first.rank == 4 or draw.chance(0.7) else 2
    rank = first.rank + count
    return signed(draw, draw.subset(range(rank), count, count), rank)


@operator
class Unsqueeze(Moving):
    inputs = (In("T", ALL, (0, 4)),)
    axes = Choice(by=_unsqueezed)

    def requires(self, x):
        rank = x.rank + len(self.axes)
        yield all(-rank <= a < rank for a in self.axes)
        yield len(set(positive(self.axes, rank))) == len(self.axes) > 0

    def type_transfer(self, x):
        shape = list(x.shape)
        for axis in sorted(positive(self.axes, x.rank + len(self.axes))):
            shape.insert(axis, 1)
        return [x.with_shape(shape)]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return output_rank - (2 if output_rank > 1 and draw.chance(0.3) else 1)

    def infer_input_types(self, draw, first, dtypes, output):
        if output.rank != first.rank + len(self.axes):
            return [first]
        new = positive(self.axes, output.rank)
        shape = tuple(d for i, d in enumerate(output.shape) if i not in new)
        return [TensorType(dtypes[0], shape)]

    def torch(self, x):
        for axis in sorted(positive(self.axes, x.dim() + len(self.axes))):
            x = x.unsqueeze(axis)
        return x

    def onnx(self, emit, x):
        return emit(self.name, x, emit.const(list(self.axes), DType.INT64))


def _expanded(draw, op, first, *_):
    """The target shape: sizes of the input, 1 (which keeps them too), or new sizes."""
    extra = draw.choice((0, 0, 1, 1, 2)) if first.rank < 4 else 0
    rank = first.rank + extra

    def size(d):
        if (isinstance(d, int) and d == 1) or draw.chance(0.2):
            return draw.dim(rank)
        return 1 if draw.chance(0.2) else d

    return (*(draw.dim(rank) for _ in range(extra)), *map(size, first.shape))


@operator
class Expand(Moving):
    """Broadcast to a shape, both ways: a 1 in the shape keeps the input's size."""

    shape = Choice(by=_expanded)

    def _pairs(self, x):
        return zip(reversed(x.shape), reversed(self.shape))

    def requires(self, x):
        yield len(self.shape) >= x.rank
        for d, s in self._pairs(x):
            if d is not s:
                yield or_(d == s, d == 1, s == 1)

    def type_transfer(self, x):
        tail = [maximum(d, s) for d, s in self._pairs(x)]
        return [x.with_shape((*self.shape[: len(self.shape) - x.rank], *reversed(tail)))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return max(0, output_rank - draw.choice((0, 0, 1, 1, 2)))

    def infer_input_types(self, draw, first, dtypes, output):
        return [first]

    def torch(self, x):
        new = len(self.shape) - x.dim()
        return x.expand([-1 if i >= new and d == 1 else d for i, d in enumerate(self.shape)])

    def onnx(self, emit, x):
        return emit("Expand", x, emit.const(list(self.shape), DType.INT64))


@operator
class Flatten(Moving):
    """To a matrix: the axes before `axis` and those from it on."""

    axis = Choice(by=lambda draw, op, first, *_: draw.integer(-first.rank, first.rank))

    def requires(self, x):
        yield -x.rank <= self.axis <= x.rank

    def _at(self, rank):
        return self.axis + rank if self.axis < 0 else self.axis

    def type_transfer(self, x):
        at = self._at(x.rank)
        return [x.with_shape((product(x.shape[:at]), product(x.shape[at:])))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.choice((1, 2, 3, 3, 4, 5)) if output_rank == 2 else None

    def infer_input_types(self, draw, first, dtypes, output):
        """Half of the time only one axis of each side is larger than 1: no products then."""
        if draw.chance(0.5):
            return [first]
        at, rank = self._at(first.rank), first.rank
        shape = [1] * rank
        if at > 0:
            shape[draw.integer(0, at - 1)] = output.shape[0]
        if at < rank:
            shape[draw.integer(at, rank - 1)] = output.shape[1]
        return [TensorType(dtypes[0], tuple(shape))]

    def torch(self, x):
        at = self._at(x.dim())
        if at == 0:
            return x.reshape(1, -1)
        if at == x.dim():
            return x.reshape(-1, 1)
        return x.flatten(0, at - 1).flatten(1)


@operator
class Tile(Moving):
    inputs = (In("T", ALL, (1, 5)),)
    repeats = Choice(
        by=lambda draw, op, first, *_: tuple(draw.choice((1, 1, 2, 3)) for _ in first.shape)
    )

    def requires(self, x):
        yield len(self.repeats) == x.rank
        yield all(r >= 1 for r in self.repeats)

    def type_transfer(self, x):
        return [x.with_shape([d * r for d, r in zip(x.shape, self.repeats)])]

    def infer_input_types(self, draw, first, dtypes, output):
        pairs = zip(first.shape, output.shape, self.repeats)
        return [TensorType(dtypes[0], tuple(o if r == 1 else d for d, o, r in pairs))]

    def torch(self, x):
        return x.repeat(self.repeats)

    def onnx(self, emit, x):
        return emit("Tile", x, emit.const(list(self.repeats), DType.INT64))


@operator
class Concat(Moving):
    inputs = (In("T", ALL, (1, 5)), In("T", ranks=(1, 5)))
    variadic = (2, 4)
    axis = AXIS

    def requires(self, first, *others):
        yield -first.rank <= self.axis < first.rank
        at = self.axis % first.rank
        for other in others:
            yield other.rank == first.rank
            for i, (a, b) in enumerate(zip(first.shape, other.shape)):
                if i != at and a is not b:
                    yield a == b

    def type_transfer(self, *inputs):
        return [_resized(inputs[0], self.axis, total(t.shape[self.axis] for t in inputs))]

    def complete(self, draw, first, dtypes):
        return [first, *(_resized(first, self.axis, draw.dim(first.rank)) for _ in dtypes[1:])]

    def infer_input_types(self, draw, first, dtypes, output):
        like = TensorType(dtypes[0], output.shape)
        return [_resized(like, self.axis, draw.dim(output.rank)) for _ in dtypes]

    @classmethod
    def draw_backward(cls, draw, first, output):
        return cls.draw(draw, first)

    def torch(self, *xs):
        return torch.cat(xs, self.axis)


def _resized(type_, axis, size):
    """The type with another size along one axis."""
    shape = list(type_.shape)
    shape[axis] = size
    return type_.with_shape(shape)


@operator
class Split(Moving):
    """Two to four parts along one axis, of any sizes; `num_outputs` where that says the same."""

    inputs = (In("T", ALL, (1, 5)),)
    axis = AXIS
    split = Choice(
        by=lambda draw, *_: tuple(draw.var("s", 1, 48) for _ in range(draw.integer(2, 4)))
    )

    def requires(self, x):
        yield -x.rank <= self.axis < x.rank
        yield all(not isinstance(s, int) or s >= 1 for s in self.split)
        yield total(self.split) == x.shape[self.axis]

    def type_transfer(self, x):
        return [_resized(x, self.axis, size) for size in self.split]

    def infer_input_types(self, draw, first, dtypes, output):
        return [_resized(TensorType(dtypes[0], output.shape), self.axis, total(self.split))]

    def torch(self, x):
        return torch.split(x, self.split, self.axis)

    def onnx(self, emit, x):
        count = len(self.split)
        if emit.opset >= 18 and len(set(self.split)) == 1:
            return emit("Split", x, outputs=count, axis=self.axis, num_outputs=count)
        return emit(
            "Split", x, emit.const(list(self.split), DType.INT64), outputs=count, axis=self.axis
        )
