"""Operators that change the shape and leave the elements alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from torch import Tensor

from nnfuzz.ir.dtypes import ALL
from nnfuzz.ir.expr import Bool, Int, IntExpr, product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.axes import RankChanging
from nnfuzz.operators.intervals import Interval, moved
from nnfuzz.operators.operator import In, OpSpec, Range, per_input


class DataMovement(RankChanging):
    """One tensor of any type in; its elements come out, possibly elsewhere or several times."""

    inputs: ClassVar[tuple[In, ...]] = (In("T", ALL),)
    modular = True
    whole = "kept"
    edges = True
    mixes: ClassVar[bool] = False
    """Whether elements are interpolated and may leave the bounds of the input."""

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
    """The interval of a tensor whose elements are rearranged."""
    lo = move(interval.lo)
    hi = lo if interval.exact else move(interval.hi)
    return Interval(lo, hi, None if interval.any is None else move(interval.any))


class ZeroFilled(OpSpec):
    """Zeros come in where there are no elements of the first input."""

    def value_range(self, *ranges: tuple[float, float]) -> tuple[float, float]:
        return min(ranges[0][0], 0), max(ranges[0][1], 0)


def factors(sizes: Sequence[Int]) -> tuple[int, list[IntExpr]]:
    """The product of sizes as a constant and factors that are no products themselves."""
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
    """Whether the products of two shapes are equal, after common factors cancel."""
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
    """A random shape, symbolic perhaps, that can have as many elements as the given one.

    Adjacent dimensions merge, one splits into a factor and the rest, ones come in.
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
    """Two sizes whose product may be the given one: divisors of a number, variables otherwise."""
    if size.__class__ is int and size == 0:
        return draw.shuffled([0, draw.integer(0, 8)])
    if isinstance(size, int):
        inner = [f for f in range(2, size) if size % f == 0]
        factor = draw.choice(inner or [1, size])
        return [factor, size // factor]
    least = 1 if draw.chance(0.3) else 2
    return [draw.var("f", least, 32), draw.var("r", least, 96)]


def extent(type_: TensorType, axis: int | None) -> Int:
    """How many slices there are along an axis, or elements where it is None."""
    return type_.numel if axis is None else type_.shape[axis]


def resized(type_: TensorType, axis: int | None, size: Int) -> TensorType:
    """The type with another size along an axis; with None, a flat tensor of that size."""
    if axis is None:
        return type_.with_shape((size,))
    shape = list(type_.shape)
    shape[axis] = size
    return type_.with_shape(shape)


class Zeros(OpSpec):
    """Some element may be 0 for every input: padding, or a place that no element moves to."""

    def certain(self, *inputs: TensorType) -> tuple[Range, ...]:
        return ((0, 0),)
