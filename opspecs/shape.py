"""Shapes: regrouping, permuting, broadcasting."""

from __future__ import annotations

from typing import ClassVar

from nnfuzz.ir.dtypes import ALL
from nnfuzz.ir.expr import IntExpr, and_, or_, product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.broadcast import wider
from nnfuzz.operators.families.operand import Operands
from nnfuzz.operators.families.shape import DataMovement, positive, regrouped, same_product, signed
from nnfuzz.operators.operator import In, operator


def _copied(draw, op, first, *_):
    """Draws the axes of a Reshape that copy the input's size; often none."""
    both = enumerate(zip(op.shape, first.shape))
    same = [i for i, (a, b) in both if (a == b) is True and i != op.inferred]
    return () if op.allowzero or draw.chance(0.5) else draw.subset(same)


@operator
class Reshape(Operands, DataMovement):
    """A tensor of any shape with the same number of elements. Source: ONNX Reshape-13."""

    merges = ("Reshape", "Transpose", "Flatten")
    takes_empty = True
    shape = Choice(by=lambda draw, op, first, *_: regrouped(draw, first.shape))
    inferred = Choice(
        by=lambda draw, op, first, *_: -1 if first.is_empty else draw.integer(-1, len(op.shape) - 1)
    )
    allowzero = Choice((0, 0, 1), default=0)
    """`allowzero`, which has no effect without a 0 in the shape; both a 0 and a -1 are invalid."""
    copied = Choice(by=_copied, default=())
    """The axes whose size the model gives as 0, which copies the input's size."""
    usual: ClassVar = {**Operands.usual, "inferred": -1, "allowzero": 0, "copied": ()}

    def requires(self, x):
        yield self.inferred < len(self.shape)
        yield not self.allowzero or self.inferred < 0 or not x.is_empty
        yield not self.allowzero or not self.copied
        yield self.inferred not in self.copied
        for axis in self.copied:
            yield axis < min(x.rank, len(self.shape))
            yield self.shape[axis] == x.shape[axis]
        yield same_product(self.shape, x.shape)
        if x.is_empty:
            # Beside a 0, no other size follows from the number of elements.
            yield self.inferred < 0 or self.shape[self.inferred] == 0
            yield self.inferred < 0 or self.shape.count(0) == 1
            # Without `allowzero`, a 0 copies a size.
            zeros = [i for i, d in enumerate(self.shape) if d.__class__ is int and d == 0]
            copied = (i == self.inferred or x.shape[i : i + 1] == (0,) for i in zeros)
            yield self.allowzero or all(copied)

    def refusal(self, exporter, opset, *inputs):
        """`allowzero` came with opset 14."""
        moved = self.allowzero and opset < 14 and any(t.is_empty for t in inputs)
        return "a 0 copies a size" if moved else super().refusal(exporter, opset, *inputs)

    def type_transfer(self, x):
        return [x.with_shape(self.shape)]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.integer(max(0, output_rank - 2), min(5, output_rank + 2))

    def infer_input_types(self, draw, first, dtypes, output):
        return [first]

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        inferred = [i for i, d in enumerate(fields["shape"]) if d == -1]
        place, zeros = inferred[0] if inferred else -1, fields.get("allowzero", 0)
        copied = tuple(i for i, d in enumerate(fields["shape"]) if d == 0 and not zeros)
        return cls(shape=gives[0].shape, inferred=place, allowzero=zeros, copied=copied)

    def torch(self, x):
        return x.reshape(self.shape)

    def onnx(self, emit, x):
        """One dimension is left for the compiler to infer where `inferred` says so."""
        shape = [-1 if i == self.inferred else d for i, d in enumerate(self.shape)]
        shape = [0 if i in self.copied else d for i, d in enumerate(shape)]
        zeros = 1 if self.allowzero and emit.opset >= 14 else None
        return emit("Reshape", x, self.integers(emit, x, shape), allowzero=zeros)


@operator
class Transpose(DataMovement):
    merges = ("Transpose",)
    takes_empty = True
    perm = Choice(by=lambda draw, op, first, *_: tuple(draw.shuffled(range(first.rank))))

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        return cls(perm=fields.get("perm") or tuple(reversed(range(takes[0].rank))))

    def requires(self, x):
        yield sorted(self.perm) == list(range(x.rank))

    def type_transfer(self, x):
        return [x.with_shape([x.shape[p] for p in self.perm])]

    def infer_input_types(self, draw, first, dtypes, output):
        return [output.with_shape([output.shape[self.perm.index(i)] for i in range(output.rank)])]

    def torch(self, x):
        return x.permute(self.perm)


def _squeezed(draw, op, first, *_):
    """Draws axes of size 1, or axes that may be 1 if there are none."""
    ones = [i for i, d in enumerate(first.shape) if isinstance(d, int) and d == 1]
    able = [i for i, d in enumerate(first.shape) if isinstance(d, IntExpr) and d.lo <= 1]
    pool = ones or able or range(first.rank)
    return signed(draw, draw.subset(pool, 1, 1 if draw.chance(0.7) else 2), first.rank)


@operator
class Squeeze(DataMovement):
    merges = ("Unsqueeze", "Squeeze")
    takes_empty = True
    inputs = (In("T", ALL, (1, 5)),)
    as_inputs = ("axes",)
    axes = Choice(by=_squeezed)

    def requires(self, x):
        yield all(-x.rank <= a < x.rank for a in self.axes)
        yield len(set(positive(self.axes, x.rank))) == len(self.axes) > 0
        yield and_(*(x.shape[a] == 1 for a in self.axes))

    def type_transfer(self, x):
        gone = positive(self.axes, x.rank)
        return [x.with_shape([d for i, d in enumerate(x.shape) if i not in gone])]

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        ones = tuple(i for i, d in enumerate(takes[0].shape) if d == 1)
        return cls(axes=fields["axes"] or ones)

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


def _unsqueezed(draw, op, first, *_):
    """Draws one or two axes of the result, whose rank is at most 5."""
    count = 1 if first.rank == 4 or draw.chance(0.7) else 2
    rank = first.rank + count
    return signed(draw, draw.subset(range(rank), count, count), rank)


@operator
class Unsqueeze(DataMovement):
    merges = ("Squeeze", "Unsqueeze")
    takes_empty = True
    inputs = (In("T", ALL, (0, 4)),)
    as_inputs = ("axes",)
    axes = Choice(by=_unsqueezed)

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        """Models may have a scalar for a single axis."""
        axes = fields["axes"]
        return cls(axes=(axes,) if isinstance(axes, int) else axes)

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


def _expanded(draw, op, first, *_):
    """Draws the target shape of sizes of the input, of 1 (which keeps the input's size), and of new
    sizes; now and then it is shorter than that of the input, whose first sizes are kept."""
    extra = draw.choice((0, 0, 1, 1, 2)) if first.rank < 4 else 0
    rank = first.rank + extra
    left = draw.integer(0, first.rank) if draw.chance(0.1) else 0

    def size(d):
        if (isinstance(d, int) and d == 1) or draw.chance(0.2):
            return draw.dim(rank)
        return 1 if draw.chance(0.2) else d

    if left:
        return tuple(map(size, first.shape[left:]))
    return (*(draw.dim(rank) for _ in range(extra)), *map(size, first.shape))


@operator
class Expand(Operands, DataMovement):
    """Broadcast to a shape, both ways: a 1 in the shape keeps the input's size."""

    merges = ("Expand",)
    takes_empty = True
    copies = True
    shape = Choice(by=_expanded)

    def _pairs(self, x):
        return zip(reversed(x.shape), reversed(self.shape))

    def requires(self, x):
        yield from (s >= 0 for s in self.shape)
        for d, s in self._pairs(x):
            if d is not s:
                yield or_(d == s, d == 1, s == 1)

    def type_transfer(self, x):
        tail = [wider(d, s) for d, s in self._pairs(x)]
        longer = max(x.shape, self.shape, key=len)
        return [x.with_shape((*longer[: len(longer) - len(tail)], *reversed(tail)))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return max(0, output_rank - draw.choice((0, 0, 1, 1, 2)))

    def infer_input_types(self, draw, first, dtypes, output):
        return [first]

    def torch(self, x):
        new = len(self.shape) - x.dim()
        shape = [-1 if i >= new and d == 1 else d for i, d in enumerate(self.shape)]
        return x.expand([-1] * -new + shape)

    def onnx(self, emit, x):
        return emit("Expand", x, self.integers(emit, x, self.shape))


@operator
class Flatten(DataMovement):
    """A matrix whose rows are the axes before `axis`, and whose columns are the others."""

    merges = ("Reshape",)
    takes_empty = True
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
        """In half of all cases one axis of each side is larger than 1, which avoids products."""
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
