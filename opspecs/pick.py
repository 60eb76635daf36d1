"""Selection of elements by their values; results are filled up to a fixed number of elements."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import ALL, BOOLS, NUMBERS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.index import relocated
from nnfuzz.operators.families.reduce import gaps, settled
from nnfuzz.operators.families.shape import (
    AXIS_OR_NONE,
    OpenSize,
    Zeros,
    emit_filled,
    extent,
    filled,
    resized,
)
from nnfuzz.operators.intervals import Interval, everywhere
from nnfuzz.operators.operator import In, OpSpec, operator
from nnfuzz.operators.unexportable import DECOMPOSED


@operator
class NonZero(OpenSize):
    """Indices of the nonzero elements as columns. Source: ONNX NonZero-13."""

    inputs = (In("T", ALL, (1, 5)),)
    output = DType.INT64
    modular = True

    def requires(self, x):
        yield self.size >= 1

    def type_transfer(self, x):
        return [self.closed(TensorType(DType.INT64, (x.rank, 1)))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.integer(1, 5) if output_rank in (1, 2) else None

    def certain(self, x):
        return ((0, 0),) if self.closing == "filled" else ()

    def value_range(self, x):
        return 0, math.inf

    def torch(self, x):
        return self.closed_tensor(x.nonzero().t())

    def onnx(self, emit, x):
        opened = TensorType(DType.INT64, (emit.type(x).rank, 1))
        return self.emit_closed(emit, emit("NonZero", x), opened)

    def interval(self, x):
        """Columns are certain up to the first element for which it is uncertain whether it is 0."""
        y = self.torch(x.lo)
        open_ = x.mask() | ((x.lo != x.hi) & (x.lo <= 0) & (x.hi >= 0))
        if self.closing == "filled":
            return [Interval(y, y, beyond(y, 1, open_.flatten(), (x.lo != 0).flatten()))]
        return [Interval(y, y, everywhere(y, open_))]

    def margins(self, x):
        return [x.abs()] if x.is_floating_point() else []


class AlongOrFlat(OpSpec):
    """Base of selections of slices along an axis, or of elements of the flat tensor."""

    axis = AXIS_OR_NONE

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.integer(1, 4) if output_rank == 1 else output_rank

    @classmethod
    def draw_backward(cls, draw, first, output):
        """Selects from the flat tensor where the ranks differ."""
        op = cls.draw(draw, first)
        if first.rank != output.rank:
            op.__dict__["axis"] = None
        return op


@operator
class Compress(Zeros, AlongOrFlat):
    """Slices along an axis, or elements of the flat tensor, where a condition holds, followed by
    zeros.

    Source: ONNX Compress-11.
    """

    unexportable = DECOMPOSED
    inputs = (In("T", ALL, (1, 5)), In("B", BOOLS, (1, 1)))
    modular = True

    def requires(self, x, condition):
        yield self.axis is None or -x.rank <= self.axis < x.rank
        yield condition.shape[0] <= extent(x, self.axis)

    def type_transfer(self, x, condition):
        return [resized(x, self.axis, condition.shape[0])]

    def infer_input_types(self, draw, first, dtypes, output):
        if self.axis is None:
            return [first, TensorType(dtypes[1], output.shape)]
        x = resized(output, self.axis, first.shape[self.axis])
        return [x, TensorType(dtypes[1], (output.shape[self.axis],))]

    def complete(self, draw, first, dtypes):
        return [first, TensorType(dtypes[1], (draw.dim(max(1, first.rank)),))]

    def value_range(self, x, condition):
        return min(x[0], 0), max(x[1], 0)

    def torch(self, x, condition):
        axis = 0 if self.axis is None else self.axis % x.dim()
        x = x.reshape(-1) if self.axis is None else x
        taken = x.narrow(axis, 0, len(condition))[(*(slice(None),) * axis, condition)]
        return filled(taken, axis, len(condition))

    def onnx(self, emit, x, condition):
        shape = self.type_transfer(emit.type(x), emit.type(condition))[0].shape
        y = emit("Compress", x, condition, axis=self.axis)
        axis = 0 if self.axis is None else self.axis % len(shape)
        return emit_filled(emit, y, emit.type(x).dtype, shape, axis)

    def interval(self, x, condition):
        (y,) = relocated(self, (x, condition), [1])
        axis = 0 if self.axis is None else self.axis % x.lo.dim()
        return [y.masked(beyond(y.lo, axis, condition.unsure, condition.lo))]


@operator
class Unique(Zeros, AlongOrFlat):
    """The distinct elements, or slices along an axis, followed by zeros; the first position, the
    inverse index and the count of each.

    Source: ONNX Unique-11.
    """

    unexportable = DECOMPOSED
    inputs = (In("T", NUMBERS, (1, 4)),)
    sorted = Choice((1, 1, 0))

    def requires(self, x):
        yield self.axis is None or -x.rank <= self.axis < x.rank

    def type_transfer(self, x):
        count = TensorType(DType.INT64, (extent(x, self.axis),))
        return [resized(x, self.axis, *count.shape), count, count, count]

    def value_range(self, x):
        """One range for elements, positions and counts."""
        return min(x[0], 0), math.inf

    def torch(self, x):
        axis = 0 if self.axis is None else self.axis % x.dim()
        x = x.reshape(-1) if self.axis is None else x
        size = x.shape[axis]
        which = torch.unique(x, return_inverse=True, dim=axis)[1]
        place = torch.arange(size)
        first = torch.full_like(place, size).scatter_reduce(0, which, place, "amin")
        if not self.sorted:
            first, order = first.sort()
            which = torch.zeros_like(place).scatter(0, order, place)[which]
        there = first < size
        first = torch.where(there, first, 0)
        shape = [-1 if i == axis else 1 for i in range(x.dim())]
        y = torch.where(there.reshape(shape), x.index_select(axis, first), x.new_zeros(()))
        return y, first, which, torch.bincount(which, minlength=size)

    def onnx(self, emit, x):
        y, *counts = self.type_transfer(emit.type(x))
        axis = 0 if self.axis is None else self.axis % y.rank
        found = emit("Unique", x, outputs=4, axis=self.axis, sorted=self.sorted)
        return [
            emit_filled(emit, name, t.dtype, t.shape, at)
            for name, t, at in zip(found, (y, *counts), (axis, 0, 0, 0))
        ]

    def interval(self, x):
        """The result is certain where elements are distinguished or exact, since then they only
        move."""
        y, first, which, counts = self.torch(x.lo)
        masks = [None] * 4
        told = x.exact or bool(settled(Interval(x.lo.reshape(-1), x.hi.reshape(-1)), 0).all())
        if not told or x.any is not None:
            masks = self._undecided(x, y, first, which)
        axis = 0 if self.axis is None else self.axis % x.lo.dim()
        there = torch.bincount(which, minlength=len(first)) > 0
        shape = [-1 if i == axis else 1 for i in range(y.dim())]
        most = (x.hi.reshape(-1) if self.axis is None else x.hi).index_select(axis, first)
        found = [Interval(y, torch.where(there.reshape(shape), most, y), masks[0])]
        return found + [Interval(v, v, m) for v, m in zip((first, which, counts), masks[1:])]

    def _undecided(self, x, y, first, which):
        """Masks of the outputs where it is uncertain which elements are equal.

        In sorted order, positions are certain below the first element that may equal another one;
        in order of occurrence, before the first element that may have occurred already.
        """
        axis = 0 if self.axis is None else self.axis % x.lo.dim()
        size = len(first)
        if size * x.lo.numel() > MOST_PAIRS:
            return [everywhere(v, True) for v in (y, first, which, which)]
        open_ = open_pairs(*(slices(v, self.axis) for v in (x.lo, x.hi, x.mask())))
        unsure = open_.any(1)
        place = torch.arange(size)
        if self.sorted:
            least = int(torch.where(unsure, which, size).min())
            lost = place >= least
            elements = which >= least
        else:
            start = int(torch.where(open_.tril(-1).any(1), place, size).min())
            new = (which == place.unsqueeze(1)).int()
            begun = torch.where(new.sum(1) > 0, first, size)
            lost = begun >= start
            elements = lost[which] | (unsure & (place >= start))
        if not bool(unsure.any()):
            lost = elements = torch.zeros_like(unsure)
        shape = [-1 if i == axis else 1 for i in range(y.dim())]
        values = x.mask() if self.axis is not None else x.mask().reshape(-1)
        values = values.index_select(axis, first) | lost.reshape(shape)
        repeated = torch.zeros_like(lost).index_put((which[unsure],), torch.tensor(True))
        return [values, lost, elements, lost | repeated]

    def margins(self, x):
        return [gaps(x)] if x.is_floating_point() and x.numel() > 1 else []


MOST_PAIRS = 1 << 20
"""Most comparisons of elements that are made to find out which of them may be equal."""


def slices(x: Tensor, axis: int | None) -> Tensor:
    """The slices along an axis as rows; single elements if the axis is None."""
    if axis is None:
        return x.reshape(-1, 1)
    return x.movedim(axis, 0).reshape(x.shape[axis], -1)


def open_pairs(lo: Tensor, hi: Tensor, mask: Tensor) -> Tensor:
    """(n, d) ends and masks of rows -> (n, n) mask of pairs of different rows whose order is
    uncertain.

    Rows are compared as sequences: the first elements that may differ decide, if their intervals
    are disjoint.
    """
    same = (lo == hi).unsqueeze(1) & (lo.unsqueeze(1) == lo) & (lo == hi)
    same = same & ~mask.unsqueeze(1) & ~mask
    apart = ((hi.unsqueeze(1) < lo) | (lo.unsqueeze(1) > hi)) & ~mask.unsqueeze(1) & ~mask
    at = (~same).byte().argmax(-1, keepdim=True)
    decided = apart.gather(-1, at).squeeze(-1) | same.all(-1)
    return ~decided & ~torch.eye(len(lo), dtype=torch.bool)


def beyond(y: Tensor, axis: int, open_: Tensor, taken: Tensor) -> Tensor | None:
    """The mask of positions along an axis from the first element for which it is uncertain whether
    it is taken. open_, taken: flat masks in order.
    """
    if not bool(open_.any()):
        return None
    start = int(open_.byte().argmax())
    known = int(taken[:start].sum())
    mask = torch.zeros_like(y, dtype=torch.bool)
    mask.narrow(axis, min(known, y.shape[axis]), max(0, y.shape[axis] - known)).fill_(True)
    return mask
