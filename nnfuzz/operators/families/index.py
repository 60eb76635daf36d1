"""Operators with indices among their inputs: gathering moves elements, scattering puts updates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Int, maximum
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.elementwise import exponent_limit
from nnfuzz.operators.families.sums import largest, magnitude_logs, multiplied, product_radius
from nnfuzz.operators.intervals import Interval, ends, linear, outputs, torch_mask
from nnfuzz.operators.operator import ANY_RANGE, OpSpec, Range
from nnfuzz.operators.rounding import sum_radius

INDICES = (DType.INT64, DType.INT32)


class Indexed(OpSpec):
    """Inputs with `In.index` decide where the elements of the other inputs move.

    In generated graphs indices come from placeholders, so they are exact.
    """

    modular = True
    whole = "kept"
    picks: ClassVar[bool] = False
    """Whether data and indices are all inputs, and each element of the result has one index."""

    def cost(self, *inputs: TensorType) -> int:
        return 0

    def moving(self, items: Sequence[Any]) -> list[Any]:
        """Of items, one per input, those of the inputs that are not indices."""
        return [x for x, p in zip(items, self.patterns(len(items))) if not p.index]

    def value_range(self, *ranges: Range) -> Range:
        moving = self.moving(ranges)
        return min(r[0] for r in moving), max(r[1] for r in moving)

    def undefined(self, *intervals: Interval) -> Tensor | None:
        """The elements that depend on an index whose value is not known exactly."""
        patterns = self.patterns(len(intervals))
        at = [b for b, pattern in zip(intervals, patterns) if pattern.index]
        if all(b.exact and b.any is None for b in at):
            return None
        if not self.picks:
            return torch.tensor(True)
        data, indices = (b.lo for b in intervals)
        positions = torch.arange(data.numel()).reshape(data.shape)
        unknown = at[0].mask() | (indices != at[0].hi)
        other = torch.where(unknown, torch.where(indices == 0, -1, 0), indices)
        return self.torch(positions, indices) != self.torch(positions, other)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        patterns = self.patterns(len(intervals))
        return relocated(self, intervals, [i for i, p in enumerate(patterns) if p.index])


def relocated(op: OpSpec, intervals: Sequence[Interval], steering: Sequence[int]) -> list[Interval]:
    """Intervals of moved elements. steering: positions of the exact inputs that move them."""

    def sent(tensors: Sequence[Tensor]) -> list[Tensor]:
        return outputs(
            op, *[intervals[i].lo if i in steering else t for i, t in enumerate(tensors)]
        )

    moving = [b for i, b in enumerate(intervals) if i not in steering]
    los = sent([b.lo for b in intervals])
    his = los if all(b.exact for b in moving) else sent([b.hi for b in intervals])
    if all(b.any is None for b in moving):
        return [Interval(lo, hi) for lo, hi in zip(los, his)]
    masks = sent([b.mask() for b in intervals])
    return [Interval(lo, hi, mask) for lo, hi, mask in zip(los, his, masks)]


def from_front(indices: Tensor, size: int) -> Tensor:
    """Indices as int64, with negative ones, which count from the back, made non-negative."""
    indices = indices.long()
    return torch.where(indices < 0, indices + size, indices)


def shape_within(draw: Draw, shape: Sequence[Int], free: Sequence[int]) -> tuple[Int, ...]:
    """A random shape within `shape`, but with fresh sizes along the axes in `free`."""
    return tuple(
        draw.dim(len(shape)) if i in free or draw.chance(0.3) else d for i, d in enumerate(shape)
    )


def span(size: Int) -> Range:
    """The closed range of an index into an axis of the given size, negative indices included."""
    return (-size, size - 1)  # type: ignore[return-value]


TORCH_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def put(data: Tensor, axis: int, places: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """`torch.scatter`, or `scatter_reduce` for a reduction, given by its ONNX name."""
    if reduction == "none":
        return data.scatter(axis, places, updates)
    return data.scatter_reduce(axis, places, updates, TORCH_REDUCTIONS[reduction])


class Scattering(Indexed):
    """data, indices, updates -> data with updates. Undefined where updates have the same place."""

    kernel: ClassVar[str]
    """The name of the ONNX operator."""
    reduction: Any = "none"

    def along(self, data: Tensor, indices: Tensor, updates: Tensor) -> tuple[Any, ...]:
        """(data, axis, places >= 0, updates): arguments of `put` for updates along one axis."""
        raise NotImplementedError

    def many(self, draw: Draw, size: Int, rank: int) -> Int:
        """A random number of updates for an axis; small, so that few of them collide."""
        return draw.dim(rank) if draw.chance(0.1) else maximum(1, size // draw.choice((2, 3, 5, 8)))

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        return self.complete(draw, output, dtypes)

    def torch(self, *tensors: Tensor) -> Tensor:
        data, indices, updates = tensors
        return self.put(data, indices, updates, self.reduction)

    def put(self, data: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
        """The result for a given reduction, instead of the operator's own."""
        rows, axis, places, values = self.along(data, indices, updates)
        return put(rows, axis, places, values, reduction).reshape(data.shape)

    def counts(self, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        """The number of updates of each element, in float64."""
        zeros, ones = data.new_zeros(data.shape).double(), updates.new_ones(updates.shape).double()
        return self.put(zeros, indices, ones, "add")

    def undefined(self, *intervals: Interval) -> Tensor | None:
        unknown = Indexed.undefined(self, *intervals)
        return self.counts(*[b.lo for b in intervals]) > 1 if unknown is None else unknown

    def onnx(self, emit: Any, *values: str) -> str:
        return emit(self.kernel, *values, **self.onnx_attributes())


def _multiplied(data: Range, updates: Range) -> Range:
    """Bounds of numbers that are multiplied by any number of updates."""
    least = min(data[0], updates[0])
    if least >= 1:
        return data[0], math.inf
    if max(map(abs, updates)) <= 1:
        size = max(map(abs, data))
        return (0.0 if least >= 0 else -size), size
    return (0.0, math.inf) if least >= 0 else ANY_RANGE


class Reduced(Scattering):
    """Scattering with a reduction: updates are added, multiplied and so on; places may repeat."""

    since = 18
    reduction = Choice(tuple(TORCH_REDUCTIONS))

    @property
    def modular(self) -> bool:  # type: ignore[override]
        return self.reduction in ("add", "mul")

    def undefined(self, *intervals: Interval) -> Tensor | None:
        return Indexed.undefined(self, *intervals)

    def many(self, draw: Draw, size: Int, rank: int) -> Int:
        return draw.dim(rank)

    def cost(self, *inputs: TensorType) -> int:
        return inputs[0].elements + inputs[2].elements

    def value_range(self, *ranges: Range) -> Range:
        data, _, updates = ranges
        if self.reduction == "mul":
            return _multiplied(data, updates)
        if self.reduction == "add":
            lo, hi = (ANY_RANGE[0], data[1]), (data[0], ANY_RANGE[1])
            return (data[0] if updates[0] >= 0 else lo[0]), (data[1] if updates[1] <= 0 else hi[1])
        return super().value_range(*ranges)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        data, indices, updates = intervals
        if self.reduction in ("add", "mul") and not data.lo.is_floating_point():  # wraps around
            data, updates = (
                b if b.exact else Interval(b.lo, b.lo, b.unsure) for b in (data, updates)
            )

        def f(d: Tensor, u: Tensor) -> Tensor:
            return self.put(d, indices.lo, u, self.reduction)

        def sums(d: Tensor, u: Tensor) -> Tensor:
            return self.put(d, indices.lo, u, "add")

        if self.reduction == "add":
            return [linear(f, data, updates)]
        mask = torch_mask(sums, data, updates)
        if self.reduction == "mul":
            return [multiplied(f, data, updates).masked(mask)]
        return [Interval(*ends(f, (1,), data, updates), mask)]

    def domain(self, *tensors: Tensor) -> list[Tensor]:
        """Every partial sum or product must stay finite, in any order."""
        data, indices, updates = tensors
        if not data.is_floating_point() or self.reduction not in ("add", "mul"):
            return []
        if self.reduction == "add":
            return [self.put(data.abs(), indices, updates.abs(), "add") - largest(data) / 2]
        logs = self.put(magnitude_logs(data), indices, magnitude_logs(updates), "add")
        return [logs - exponent_limit(data)]

    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        data, indices, updates = xs
        if self.reduction in ("max", "min"):
            return 0.0
        met = float(self.counts(*xs).max())
        if self.reduction == "mul":
            grown = self.put(data.abs().clamp(min=1), indices, updates.abs().clamp(min=1), "mul")
            return product_radius(u, met, y, grown)
        s = self.put(data.abs(), indices, updates.abs(), "add")
        whole = bool((data == data.round()).all()) and bool((updates == updates.round()).all())
        radius = sum_radius(u, met, s, y)
        return radius.masked_fill_(s < 1 / u, 0.0) if whole else radius
