"""Axes, operators that change a shape but not the elements, and results of unknown size.

A graph knows all sizes. So an operator whose result has a data-dependent size is lowered together
with nodes that make the size known again; compilers see an unknown size in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Bool, Int, IntExpr, product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.intervals import Interval, moved
from nnfuzz.operators.operator import OpSpec, Range, per_input


def positive(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes as non-negative numbers, in the given order."""
    return tuple(a % rank for a in axes)


def signed(draw: Draw, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The same axes; one time in four, as negative numbers."""
    return tuple(a - rank for a in axes) if draw.chance(0.25) else tuple(axes)


def _axis(draw: Draw, op: Any, first: TensorType, *_: TensorType) -> int:
    return signed(draw, [draw.integer(0, first.rank - 1)], first.rank)[0]


def _axes(draw: Draw, op: Any, first: TensorType, *_: TensorType) -> tuple[int, ...]:
    count = 1 if draw.chance(0.5) else draw.integer(1, first.rank)
    return signed(draw, draw.subset(range(first.rank), count, count), first.rank)


def any_axes(draw: Draw, op: Any, first: TensorType, *_: TensorType) -> tuple[int, ...]:
    """Axes of the first input as in `AXES`, but sometimes none; a scalar has none."""
    return () if first.rank == 0 or draw.chance(0.06) else _axes(draw, op, first)


AXIS = Choice(by=_axis)
"""One axis of the first input."""

AXIS_OR_NONE = Choice(
    by=lambda draw, op, *types: None if draw.chance(0.3) else _axis(draw, op, *types)
)
"""One axis of the first input, or None for the flattened tensor."""

AXES = Choice(by=_axes)
"""At least one axis of the first input, in ascending order; half of the time exactly one."""


def sizes(x: Tensor) -> tuple[int, ...]:
    """The shape of a tensor as plain integers, which PyTorch's tracer takes for constants."""
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
        """An instance that gives the output the rank of `output`, if a few attempts find one."""
        for _ in range(8):
            op = cls.draw(draw, first)
            if op.type_transfer(first)[0].rank == output.rank:
                break
        return op


class DataMovement(RankChanging):
    """One tensor of any type in; its elements come out, possibly moved, repeated or left out."""

    modular = True
    whole = "kept"
    edges = True
    mixes: ClassVar[bool] = False
    """Whether elements are interpolated, so that results may leave the bounds of the input."""

    @per_input
    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return super().interval(*intervals) if self.monotone else moved(self, *intervals)

    @per_input
    def value_range(self, *ranges: tuple[float, float]) -> tuple[float, float]:
        return min(r[0] for r in ranges), max(r[1] for r in ranges)

    @per_input
    def cost(self, *inputs: TensorType) -> int:
        return 0


def on_interval(move: Callable[[Tensor], Tensor], interval: Interval) -> Interval:
    """The interval of a tensor whose elements `move` rearranges."""
    lo = move(interval.lo)
    hi = lo if interval.exact else move(interval.hi)
    return Interval(lo, hi, None if interval.any is None else move(interval.any))


class ZeroFilled(OpSpec):
    """An operator whose result is 0 where no element of the first input is placed."""

    def value_range(self, *ranges: tuple[float, float]) -> tuple[float, float]:
        return min(ranges[0][0], 0), max(ranges[0][1], 0)


def factors(sizes: Sequence[Int]) -> tuple[int, list[IntExpr]]:
    """A product of sizes as a constant and symbolic factors that are no products themselves."""
    constant, found, stack = 1, [], list(sizes)
    while stack:
        size = stack.pop()
        if isinstance(size, int):
            constant *= size
        elif size.op == "mul":
            stack.extend(size.args)
        else:
            found.append(size)
    return constant, found


def same_product(a: Sequence[Int], b: Sequence[Int]) -> Bool:
    """Whether two shapes have equally many elements; common factors are cancelled first."""
    (ca, fa), (cb, fb) = factors(a), factors(b)
    left = []
    for factor in fa:
        twin = next((i for i, other in enumerate(fb) if factor is other), None)
        if twin is None:
            left.append(factor)
        else:
            del fb[twin]
    return product([ca, *left]) == product([cb, *fb])


def regrouped(draw: Draw, shape: Sequence[Int], most: int = 5) -> tuple[Int, ...]:
    """A random shape, perhaps symbolic, that can have as many elements as the given one.

    Adjacent dimensions are merged, one is split into two factors, and ones are inserted.
    """
    sizes = list(shape)
    moves = ["merge"] * 2 if len(sizes) > 1 else []
    moves += ["split"] * 2 if 0 < len(sizes) < most else []
    for move in [draw.choice(moves or ["one"]), *draw.subset(("one", "split", "merge"), 0, 2)]:
        if move == "merge" and len(sizes) > 1:
            i = draw.integer(0, len(sizes) - 2)
            sizes[i : i + 2] = [sizes[i] * sizes[i + 1]]
        elif move == "split" and 0 < len(sizes) < most:
            i = draw.integer(0, len(sizes) - 1)
            sizes[i : i + 1] = split(draw, sizes[i])
        elif move == "one" and len(sizes) < most:
            sizes.insert(draw.integer(0, len(sizes)), 1)
    return (product(sizes),) if draw.chance(0.1) else tuple(sizes)


def split(draw: Draw, size: Int) -> list[Int]:
    """Two sizes whose product can be the given one: divisors of a number, otherwise variables."""
    if size.__class__ is int and size == 0:
        return draw.shuffled([0, draw.integer(0, 8)])
    if isinstance(size, int):
        small = [f for f in range(2, math.isqrt(size) + 1) if size % f == 0]
        inner = sorted({*small, *(size // f for f in small)})
        factor = draw.choice(inner or [1, size])
        return [factor, size // factor]
    least = 1 if draw.chance(0.3) else 2
    return [draw.var("f", least, 32), draw.var("r", least, 96)]


def extent(type_: TensorType, axis: int | None) -> Int:
    """The size of an axis; the number of elements if `axis` is None."""
    return type_.numel if axis is None else type_.shape[axis]


def resized(type_: TensorType, axis: int | None, size: Int) -> TensorType:
    """The type with another size along an axis; a flat tensor of that size if `axis` is None."""
    if axis is None:
        return type_.with_shape((size,))
    shape = list(type_.shape)
    shape[axis] = size
    return type_.with_shape(shape)


class Zeros(OpSpec):
    """An operator whose result may hold a 0 for any input: padding, or an unfilled place."""

    def certain(self, *inputs: TensorType) -> tuple[Range, ...]:
        return ((0, 0),)


CLOSINGS = ("filled", "filled", "shape", "sum")


class OpenSize(OpSpec):
    """Base of operators that compute integers along a last axis of unknown size.

    closing: what the lowering returns. "filled": `size` elements, cut or continued by zeros.
    "shape": the shape. "sum": the sum along the last axis.
    """

    size = Sym(1, 64)
    closing: Any = Choice(CLOSINGS, default="filled")
    usual: ClassVar = {"closing": "filled"}

    @classmethod
    def draw_backward(cls, draw: Draw, first: TensorType, output: TensorType) -> Self:
        ways = [cls.draw_given(draw, {"closing": closing}, first) for closing in CLOSINGS]
        made = [(op, op.type_transfer(first)[0]) for op in ways]
        fit = [op for op, t in made if t.rank == output.rank and t.dtype is output.dtype]
        return draw.choice(fit)

    def closed(self, opened: TensorType) -> TensorType:
        """The type of the result. opened: the type before closing, with any last size."""
        if self.closing == "shape":
            return TensorType(DType.INT64, (opened.rank,))
        return opened.with_shape((*opened.shape[:-1], *[self.size][self.closing == "sum" :]))

    def closed_tensor(self, x: Tensor) -> Tensor:
        """The result. x: the integers before closing."""
        if self.closing == "shape":
            return torch.tensor(x.shape)
        return x.sum(-1).to(x.dtype) if self.closing == "sum" else filled(x, -1, self.size)

    def emit_closed(self, emit: Any, value: str, opened: TensorType) -> str:
        """`closed_tensor` in ONNX; returns the name of its result."""
        if self.closing == "shape":
            return str(emit("Shape", value))
        if self.closing == "filled":
            shape = self.closed(opened).sizes
            return emit_filled(emit, value, opened.dtype, shape, opened.rank - 1)
        axes = [] if opened.rank == 1 else [emit.const([opened.rank - 1], DType.INT64)]
        return str(emit("ReduceSum", value, *axes, keepdims=0))


def filled(x: Tensor, axis: int, size: int) -> Tensor:
    """`x` with `size` elements along the axis, cut or continued by zeros."""
    shape = list(x.shape)
    shape[axis] = size
    return torch.cat([x, x.new_zeros(shape)], axis).narrow(axis, 0, size)


def emit_filled(emit: Any, value: str, dtype: DType, shape: Sequence[int], axis: int) -> str:
    """`filled` in ONNX. shape: of the result; a Reshape states it for shape inference."""
    target = emit.const(list(shape), DType.INT64)
    zeros = emit("ConstantOfShape", target, value=np.zeros(1, dtype.numpy))
    bounds = [emit.const([b], DType.INT64) for b in (0, shape[axis], axis)]
    cut = emit("Slice", emit("Concat", value, zeros, axis=axis), *bounds)
    return str(emit("Reshape", cut, target))
