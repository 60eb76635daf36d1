"""Attributes that name axes: drawn for the rank of the first input, negative ones included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from torch import Tensor

from nnfuzz.ir.expr import Bool, Int
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec, per_input


def positive(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in the given order."""
    return tuple(a % rank for a in axes)


def signed(draw: Draw, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The same axes, counted from the back one time in four."""
    return tuple(a - rank for a in axes) if draw.chance(0.25) else tuple(axes)


def _axis(draw: Draw, op: Any, first: TensorType, *_: TensorType) -> int:
    return signed(draw, [draw.integer(0, first.rank - 1)], first.rank)[0]


def _axes(draw: Draw, op: Any, first: TensorType, *_: TensorType) -> tuple[int, ...]:
    count = 1 if draw.chance(0.5) else draw.integer(1, first.rank)
    return signed(draw, draw.subset(range(first.rank), count, count), first.rank)


def any_axes(draw: Draw, op: Any, first: TensorType, *_: TensorType) -> tuple[int, ...]:
    """Axes of the first input as in `AXES`, now and then none; a scalar has none."""
    return () if first.rank == 0 or draw.chance(0.06) else _axes(draw, op, first)


AXIS = Choice(by=_axis)
"""One axis of the first input."""

AXIS_OR_NONE = Choice(
    by=lambda draw, op, *types: None if draw.chance(0.3) else _axis(draw, op, *types)
)
"""One axis of the first input, or None for the flat tensor."""

AXES = Choice(by=_axes)
"""At least one axis of the first input, in ascending order; one alone half of the time."""


def sizes(x: Tensor) -> tuple[int, ...]:
    """The shape of a tensor as plain integers, so that PyTorch's tracer takes them as constants."""
    return tuple(int(size) for size in x.shape)


def may_be_one(*sizes: Int) -> bool:
    """Whether a product of sizes, which may be symbolic, can be 1."""
    return all(size == 1 if isinstance(size, int) else size.lo <= 1 for size in sizes)


class Along(OpSpec):
    """An operator along one axis of its first input."""

    axis: Any = AXIS

    @per_input
    def requires(self, *inputs: TensorType) -> Iterable[Bool]:
        yield -inputs[0].rank <= self.axis < inputs[0].rank


class RankChanging(OpSpec):
    """An operator of one input whose attributes decide the rank of its output."""

    @classmethod
    def draw_backward(cls, draw: Draw, first: TensorType, output: TensorType) -> Self:
        """Attributes with which `first` gets the output's rank, if a few attempts find some."""
        for _ in range(8):
            op = cls.draw(draw, first)
            if op.type_transfer(first)[0].rank == output.rank:
                break
        return op
