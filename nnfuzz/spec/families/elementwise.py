"""Elementwise operators: unary, binary and n-ary with NumPy broadcasting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnfuzz.ir.dtypes import FLOATS, NUMBERS, DType
from nnfuzz.ir.expr import Bool, Int, maximum, or_
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.draw import Draw
from nnfuzz.spec.operator import In, OpSpec


class Unary(OpSpec):
    """One tensor in, one tensor of the same shape out."""

    inputs = (In("T", FLOATS),)

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        return [TensorType(dtypes[0], output.shape)]


class Broadcasting(OpSpec):
    """Several tensors in, one tensor of their broadcast shape out."""

    inputs = (In("T", NUMBERS), In("T"))

    def requires(self, *inputs: TensorType) -> Iterable[Bool]:
        for dims in aligned([t.shape for t in inputs]):
            for i, a in enumerate(dims):
                for b in dims[i + 1 :]:
                    if a is not b:
                        yield or_(a == b, a == 1, b == 1)

    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        shape = broadcast_shape([t.shape for t in inputs])
        return [TensorType(self.output_dtype(*inputs), shape)]

    def complete(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType]
    ) -> list[TensorType]:
        others = [TensorType(d, partner_shape(draw, first.shape)) for d in dtypes[1:]]
        return [first, *others]

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        whole = draw.integer(0, len(dtypes) - 1)
        return [
            TensorType(d, output.shape if i == whole else narrowed(draw, output.shape))
            for i, d in enumerate(dtypes)
        ]


class Binary(Broadcasting):
    """Two tensors of one type in, one of that type out."""


class Comparison(Broadcasting):
    """Two tensors in, booleans out."""

    output = DType.BOOL


def aligned(shapes: Sequence[Sequence[Int]]) -> list[list[Int]]:
    """The dimensions that broadcasting lines up, innermost first; ranks may differ."""
    rank = max(map(len, shapes))
    return [[s[-i] for s in shapes if len(s) >= i] for i in range(1, rank + 1)]


def broadcast_shape(shapes: Sequence[Sequence[Int]]) -> tuple[Int, ...]:
    """The shape that shapes broadcast to; they must be compatible."""
    result = []
    for dims in aligned(shapes):
        out = dims[0]
        for dim in dims[1:]:
            out = maximum(out, dim)
        result.append(out)
    return tuple(reversed(result))


def narrowed(draw: Draw, shape: Sequence[Int]) -> tuple[Int, ...]:
    """A shape that broadcasts to `shape`: some dimensions 1, some leading ones absent."""
    if draw.chance(0.5):
        return tuple(shape)
    kept = shape[draw.integer(0, len(shape)) :] if draw.chance(0.5) else shape
    return tuple(1 if draw.chance(0.25) else dim for dim in kept)


def partner_shape(draw: Draw, shape: Sequence[Int]) -> tuple[Int, ...]:
    """A shape compatible with `shape`, narrower mostly, of higher rank sometimes."""
    partner = narrowed(draw, shape)
    if len(partner) == len(shape) < 5 and draw.chance(0.1):
        partner = (draw.dim(len(shape) + 1), *partner)
    return partner
