"""Operators that find elements by index: the indices are inputs, the elements only move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Int
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.intervals import Interval, outputs
from nnfuzz.operators.operator import OpSpec, Range

INDICES = (DType.INT64, DType.INT32)


class Indexed(OpSpec):
    """Elements of some inputs move to where other inputs, whose patterns say `index`, send them.

    Indices come from placeholders, so they are exact.
    """

    modular = True
    whole = "kept"

    def cost(self, *inputs: TensorType) -> int:
        return 0

    def moving(self, items: Sequence[Any]) -> list[Any]:
        """The items, one per input, of the inputs that are no indices."""
        return [x for x, p in zip(items, self.patterns(len(items))) if not p.index]

    def value_range(self, *ranges: Range) -> Range:
        moving = self.moving(ranges)
        return min(r[0] for r in moving), max(r[1] for r in moving)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        patterns = self.patterns(len(intervals))
        return relocated(self, intervals, [i for i, p in enumerate(patterns) if p.index])


def relocated(op: OpSpec, intervals: Sequence[Interval], steering: Sequence[int]) -> list[Interval]:
    """Intervals of moved elements; `steering`: positions of the exact inputs that move them."""

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
    """Indices of int64 without negative ones, which count from the back."""
    indices = indices.long()
    return torch.where(indices < 0, indices + size, indices)


def shape_within(draw: Draw, shape: Sequence[Int], free: Sequence[int]) -> tuple[Int, ...]:
    """A shape no larger than `shape`, except along the axes in `free`, where sizes are fresh."""
    return tuple(
        draw.dim(len(shape)) if i in free or draw.chance(0.3) else d for i, d in enumerate(shape)
    )


def span(size: Int) -> Range:
    """The closed range of an index, negative ones included, into an axis of a given size."""
    return (-size, size - 1)  # type: ignore[return-value]
