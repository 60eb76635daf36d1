"""Operators that put updates into a tensor at places that indices say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Int, maximum
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.index import Indexed
from nnfuzz.operators.families.products import magnitude_logs, multiplied, product_radius, room
from nnfuzz.operators.families.sums import largest
from nnfuzz.operators.intervals import Interval, ends, linear, torch_mask
from nnfuzz.operators.operator import ANY_RANGE, Range
from nnfuzz.operators.rounding import sum_radius

TORCH_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def put(data: Tensor, axis: int, places: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """`torch.scatter`, or `scatter_reduce` by ONNX's name of the reduction."""
    if reduction == "none":
        return data.scatter(axis, places, updates)
    return data.scatter_reduce(axis, places, updates, TORCH_REDUCTIONS[reduction])


class Scattering(Indexed):
    """data, indices, updates -> data with updates; where two updates meet is undefined."""

    kernel: ClassVar[str]
    """The name of ONNX's operator."""
    reduction: Any = "none"

    def along(self, data: Tensor, indices: Tensor, updates: Tensor) -> tuple[Any, ...]:
        """(data, axis, places, updates) to put the updates along one axis. `places` are >= 0."""
        raise NotImplementedError

    def many(self, draw: Draw, size: Int, rank: int) -> Int:
        """A random number of updates for an axis; small, so that few of them meet."""
        return draw.dim(rank) if draw.chance(0.1) else maximum(1, size // draw.choice((2, 3, 5, 8)))

    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        return [inputs[0]]

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        return self.complete(draw, output, dtypes)

    def torch(self, *tensors: Tensor) -> Tensor:
        data, indices, updates = tensors
        return self.put(data, indices, updates, self.reduction)

    def put(self, data: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
        """The result of a reduction of our choice."""
        rows, axis, places, values = self.along(data, indices, updates)
        return put(rows, axis, places, values, reduction).reshape(data.shape)

    def counts(self, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        """How many updates meet in each element, in float64."""
        zeros, ones = data.new_zeros(data.shape).double(), updates.new_ones(updates.shape).double()
        return self.put(zeros, indices, ones, "add")

    def undefined(self, *intervals: Interval) -> Tensor | None:
        return self.counts(*[b.lo for b in intervals]) > 1

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
    """Updates are added to elements, multiplied and so on; duplicates are allowed."""

    since = 18
    reduction = Choice(tuple(TORCH_REDUCTIONS))

    @property
    def modular(self) -> bool:  # type: ignore[override]
        return self.reduction in ("add", "mul")

    def undefined(self, *intervals: Interval) -> Tensor | None:
        return None

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
        return [logs - room(data)]

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
