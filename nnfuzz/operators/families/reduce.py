"""Reductions along axes, and orders of elements that a rounding error may change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import FLOATS, NUMBERS, DType
from nnfuzz.ir.expr import Bool, Int
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Fields, Types
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.shape import Along, RankChanging, any_axes, positive, sizes
from nnfuzz.operators.intervals import Interval, ends
from nnfuzz.operators.operator import In, Range, per_input
from nnfuzz.operators.rounding import largest_first


def reduced(shape: Sequence[Int], axes: Sequence[int], keepdims: int) -> tuple[Int, ...]:
    """The shape after a reduction along (non-negative) axes."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def unreduced(
    first: TensorType, axes: Sequence[int], keepdims: int, output: TensorType
) -> tuple[Int, ...]:
    """A shape whose reduction has the shape of `output`; the shape of `first` if ranks differ."""
    rest = list(output.shape)
    if len(rest) != first.rank - (0 if keepdims else len(axes)):
        return first.shape
    if not keepdims:
        for axis in sorted(axes):
            rest.insert(axis, 0)
    return tuple(first.shape[i] if i in axes else d for i, d in enumerate(rest))


class Reducing(RankChanging):
    """Base of reductions along one axis or several, which `positive_axes` returns."""

    inputs = (In("T", FLOATS, (1, 5)),)
    keepdims = Choice((0, 1))

    def positive_axes(self, rank: int) -> tuple[int, ...]:
        """The reduced axes, counted from the front."""
        raise NotImplementedError

    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        (x,) = inputs
        shape = reduced(x.shape, self.positive_axes(x.rank), self.keepdims)
        return [TensorType(self.output_dtype(x), shape)]

    @classmethod
    def input_rank(cls, draw: Draw, output_rank: int) -> int | None:
        if output_rank == 0 or (output_rank < 5 and draw.chance(0.5)):
            return output_rank + 1
        return output_rank

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        axes = self.positive_axes(first.rank)
        return [TensorType(dtypes[0], unreduced(first, axes, self.keepdims, output))]

    def cost(self, *inputs: TensorType) -> int:
        return inputs[0].elements


class Reduction(Reducing):
    """Reduction along several axes. axes_input: the opset that turned the axes into an input.

    Without axes every element stays as it is, which ONNX calls `noop_with_empty_axes`. If all axes
    are given in order, the lowering omits them, since that is ONNX's default.
    """

    merges = ("Expand",)
    carries_nan = True
    inputs = (In("T", FLOATS),)
    axes = Choice(by=any_axes)
    axes_input = 18
    wraps: ClassVar[bool] = True
    """Whether integers may overflow, so that the ends of an interval are no bounds."""

    reduce: Callable[..., Tensor]
    """(x, axes, keepdim) -> the result along one axis or more."""

    def torch(self, *tensors: Tensor) -> Tensor:
        (x,) = tensors
        if self.axes:
            return self.reduce(x, self.axes, bool(self.keepdims))
        return self.reduce(x.unsqueeze(-1), (-1,), False)

    def positive_axes(self, rank: int) -> tuple[int, ...]:
        return positive(self.axes, rank)

    @classmethod
    def from_onnx(cls, fields: Fields, takes: Types, gives: Types) -> Self:
        every = () if fields.get("noop_with_empty_axes") else tuple(range(takes[0].rank))
        axes = fields.get("axes") or every
        return super().from_onnx({**fields, "axes": axes}, takes, gives)

    @per_input
    def requires(self, *inputs: TensorType) -> Iterable[Bool]:
        rank = inputs[0].rank
        yield all(-rank <= a < rank for a in self.axes)
        yield not rank or len(self.axes) == len(set(positive(self.axes, rank)))

    def onnx(self, emit: Any, *values: str) -> str:
        axes, later = list(self.axes), emit.opset >= self.axes_input
        if not axes and later:
            return emit(self.name, *values, noop_with_empty_axes=1)
        if not axes:
            values, axes = (emit("Unsqueeze", *values, emit.const([-1], DType.INT64)),), [-1]
        elif axes == list(range(emit.type(values[0]).rank)):
            return emit(self.name, *values, keepdims=self.keepdims)
        keepdims = self.keepdims if self.axes else 0
        if later:
            return emit(self.name, *values, emit.const(axes, DType.INT64), keepdims=keepdims)
        return emit(self.name, *values, axes=axes, keepdims=keepdims)

    @per_input
    def undefined(self, *intervals: Interval) -> Tensor | None:
        """Integer sums that may overflow: ONNX does not define them, and ONNX Runtime saturates."""
        (x,) = intervals
        if x.lo.is_floating_point() or not self.wraps:
            return None
        return self.torch(x.far().double().abs()) > float(torch.iinfo(x.lo.dtype).max)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        (x,) = intervals
        if self.wraps and not x.lo.is_floating_point():
            x = Interval(x.lo, x.lo, x.any if x.exact else x.unsure)
        return [self.sure(x).masked(touched(x.any, self.axes, self.keepdims))]

    def sure(self, x: Interval) -> Interval:
        """The result for an interval without masked elements. Default: by `monotone`."""
        return Interval(*ends(self.torch, self.monotone, x))

    def largest_first(self, terms: Tensor, most: Tensor) -> Tensor:
        """`rounding.largest_first` along the axes; `most` has the shape of the output."""
        axes = self.positive_axes(terms.dim())
        kept = most.reshape([1 if i in axes else d for i, d in enumerate(terms.shape)])
        return largest_first(terms, self.axes, kept).reshape(most.shape)

    def terms(self, x: Tensor) -> int:
        """Number of input elements per element of the result."""
        return math.prod(x.shape[axis] for axis in self.axes)


class Magnitudes(Reduction):
    """A reduction that grows with the absolute value of each element."""

    within = (0.0, math.inf)

    def sure(self, x: Interval) -> Interval:
        return Interval(*ends(self.torch, (1,), Interval(*x.magnitudes())))

    @per_input
    def value_range(self, *ranges: Range) -> Range:
        ((lo, hi),) = ranges
        most = max(hi, -lo)
        return max(lo, -hi, 0.0), (most if most == 0 or not self.axes else math.inf)


def touched(mask: Tensor | None, axes: Sequence[int], keepdims: int) -> Tensor | None:
    """Mask of the output elements of a reduction that depend on a masked element."""
    if mask is None or not axes:
        return mask
    return mask.any(tuple(axes), keepdim=bool(keepdims))


def reversed_order(x: Tensor) -> Tensor:
    """Numbers mapped so that their order is reversed; unlike negation, ~ does not overflow."""
    return -x if x.is_floating_point() else ~x


def winners(least: Tensor, most: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Least and greatest position along an axis at which the first largest element may be.

    A position qualifies if its element can exceed all before it and reach all after it.
    """
    may = most >= least.amax(axis, keepdim=True)
    rest = may.shape[axis] - 1
    before = least.narrow(axis, 0, rest).cummax(axis).values if rest else least.narrow(axis, 0, 0)
    may.narrow(axis, 1, rest).logical_and_(most.narrow(axis, 1, rest) > before)
    flags = may.byte()
    last = rest - flags.flip(axis).argmax(axis, keepdim=True)
    return flags.argmax(axis, keepdim=True), last


class ArgReduction(Along, Reducing):
    """Position of an extreme element along one axis; of equal elements, the first or the last.

    Source: ONNX ArgMax-13, ArgMin-13.
    """

    since = 12
    inputs = (In("T", NUMBERS, (1, 5)),)
    output = DType.INT64
    select_last_index = Choice((0, 0, 1), default=0)

    def positive_axes(self, rank: int) -> tuple[int, ...]:
        return (self.axis % rank,)

    smallest: ClassVar[bool] = False
    """Whether the least element is looked for, not the largest."""

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        """From the least to the greatest position at which the extreme element may be."""
        (x,) = intervals
        least, most = x.lo, x.hi
        if self.smallest:
            least, most = (reversed_order(end) for end in (x.hi, x.lo))
        first, last = winners(self.turned(least), self.turned(most), self.axis)
        if self.select_last_index:
            first, last = (x.lo.shape[self.axis] - 1 - place for place in (last, first))
        if not self.keepdims:
            first, last = first.squeeze(self.axis), last.squeeze(self.axis)
        return [Interval(first, last, touched(x.any, (self.axis,), self.keepdims))]

    def margins(self, *tensors: Tensor) -> list[Tensor]:
        (x,) = tensors
        if not x.is_floating_point() or x.shape[self.axis] < 2:
            return []
        top = self.ordered(x).topk(2, dim=self.axis).values
        return [top.select(self.axis, 0) - top.select(self.axis, 1)]

    def certain(self, *inputs: TensorType) -> tuple[Range, ...]:
        """Position 0, which some elements always have."""
        return ((0, 0),)

    def proxy(self, *tensors: Tensor) -> Tensor:
        """The mean position, weighted by softmax."""
        (x,) = tensors
        weights = self.ordered(x).softmax(self.axis).movedim(self.axis, -1)
        mean = weights @ weights.new_tensor(range(weights.shape[-1]))
        return mean.unsqueeze(self.axis) if self.keepdims else mean

    def first(self, x: Tensor) -> Tensor:
        """The position of the first extreme element."""
        raise NotImplementedError(f"{self.name}.first")

    def turned(self, x: Tensor) -> Tensor:
        """The elements, reversed along the axis if the last extreme element is looked for."""
        return x.flip(self.axis) if self.select_last_index else x

    def torch(self, *tensors: Tensor) -> Tensor:
        (x,) = tensors
        place = self.first(self.turned(x))
        return sizes(x)[self.axis] - 1 - place if self.select_last_index else place

    def ordered(self, x: Tensor) -> Tensor:
        """Numbers mapped so that the element looked for is the largest; floats stay floats."""
        return x

    def value_range(self, *ranges: tuple[float, float]) -> tuple[float, float]:
        return 0.0, float("inf")


def in_order(x: Tensor, axis: int, largest: int = 1) -> tuple[Tensor, Tensor]:
    """(elements, positions) along an axis, sorted; equal ones keep their order."""
    return torch.sort(x, dim=axis, descending=bool(largest), stable=True)


def settled(x: Interval, axis: int, largest: int = 1) -> Tensor:
    """Mask, in the order of `x.lo`, of elements whose rank is the same for all values in `x`.

    Masked elements are treated like others. Exact elements may be equal; others must not touch.
    """
    if x.exact:
        return torch.ones_like(x.lo, dtype=torch.bool)
    lo, hi = _ranked(x, axis, largest)
    rest = lo.shape[axis] - 1
    before = torch.full_like(lo, math.inf)
    behind = torch.full_like(lo, -math.inf)
    before.narrow(axis, 1, rest).copy_(lo.narrow(axis, 0, rest).cummin(axis).values)
    last = hi.flip(axis).narrow(axis, 0, rest).cummax(axis).values
    behind.narrow(axis, 0, rest).copy_(last.flip(axis))
    return (hi <= before) & (lo >= behind)


def parted(x: Interval, axis: int, k: int, largest: int = 1) -> Tensor:
    """Whether the first k elements in order are the same for all values, with the axis of size 1.

    Masked elements are treated like others.
    """
    if x.exact or k == x.lo.shape[axis]:
        return torch.ones_like(x.lo.narrow(axis, 0, 1), dtype=torch.bool)
    lo, hi = _ranked(x, axis, largest)
    behind = hi.narrow(axis, k, hi.shape[axis] - k)
    return lo.narrow(axis, 0, k).amin(axis, True) >= behind.amax(axis, True)


def _ranked(x: Interval, axis: int, largest: int) -> tuple[Tensor, Tensor]:
    """Lower and upper ends in the order of `x.lo`, largest first; widened unless exact."""
    order = in_order(x.lo, axis, largest)[1]
    ends = (x.lo, x.hi) if largest else (reversed_order(x.hi), reversed_order(x.lo))
    lo, hi = (end.gather(axis, order).double() for end in ends)
    far = torch.full_like(lo, math.inf)
    exact = lo == hi
    return (
        torch.where(exact, lo, torch.nextafter(lo, -far)),
        torch.where(exact, hi, torch.nextafter(hi, far)),
    )


def gaps(x: Tensor) -> Tensor:
    """Distances between neighbours after sorting all elements."""
    values = in_order(x.reshape(-1), 0, 0)[0]
    return values[1:] - values[:-1]
