"""Selecting elements by their order."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import NUMBERS, DType
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.families.operand import Operands
from nnfuzz.operators.families.reduce import in_order, parted, settled
from nnfuzz.operators.families.shape import AXIS, resized
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, operator


@operator
class TopK(Operands):
    """The k largest or smallest elements along an axis and their positions; the first of equal
    ones.

    ONNX defines no order for `sorted` = 0, where the lowering restores the order of the input.
    Source: ONNX TopK-11.
    """

    inputs = (In("T", NUMBERS, (1, 5)),)
    axis = AXIS
    k = Sym(1, 64)
    largest = Choice((1, 1, 0))
    sorted = Choice((1, 1, 0))

    def requires(self, x):
        yield -x.rank <= self.axis < x.rank
        yield self.k >= 0
        yield self.k <= x.shape[self.axis]

    def type_transfer(self, x):
        y = resized(x, self.axis, self.k)
        return [y, y.with_dtype(DType.INT64)]

    def torch(self, x):
        if torch.onnx.is_in_onnx_export() and not _constant(x):  # there is no stable sort
            values, places = x.topk(self.k, self.axis, bool(self.largest), bool(self.sorted))
        else:
            values, places = in_order(x, self.axis, self.largest)
            values = values.narrow(self.axis, 0, self.k)
            places = places.narrow(self.axis, 0, self.k)
        if self.sorted:
            return values, places
        places = places.sort(self.axis).values
        return x.gather(self.axis, places), places

    def onnx(self, emit, x):
        k = self.integers(emit, x, [self.k])
        if self.sorted:
            return emit("TopK", x, k, outputs=2, axis=self.axis, largest=self.largest)
        attributes = {"axis": self.axis, "largest": self.largest, "sorted": 0}
        _, places = emit("TopK", x, k, outputs=2, **attributes)
        places, _ = emit("TopK", places, k, outputs=2, axis=self.axis, largest=0)
        return emit("GatherElements", x, places, axis=self.axis), places

    def interval(self, x):
        """The k-th largest element grows with every element; its position is certain where
        distances are large enough."""
        (low, places), (high, _) = self.torch(x.lo), self.torch(x.hi)
        mask = x.mask().amax(self.axis, keepdim=True).expand_as(x.lo).narrow(self.axis, 0, self.k)
        if self.sorted:
            sure = settled(x, self.axis, self.largest).narrow(self.axis, 0, self.k)
            last = x.lo.shape[self.axis] - 1
            ends = torch.where(sure, places, 0), torch.where(sure, places, last)
            return [Interval(low, high, mask), Interval(*ends, mask)]
        mask = mask | ~parted(x, self.axis, self.k, self.largest)
        high = high if x.exact else x.hi.gather(self.axis, places)
        return [Interval(low, high, mask), Interval(places, places, mask)]

    def margins(self, x):
        if not x.is_floating_point() or x.shape[self.axis] < 2:
            return []
        first = 0 if self.sorted else self.k - 1
        ordered = in_order(x, self.axis, self.largest)[0]
        gaps = ordered.diff(dim=self.axis).abs()
        count = min(self.k, gaps.shape[self.axis]) - first
        return [gaps.narrow(self.axis, first, count)] if count > 0 else []

    def value_range(self, x):
        return x

    def further(self, x):
        """The first position occurs among many."""
        return (((0, DType.INT64.limits[1]), (0, 0)),)


def _constant(x):
    """Whether PyTorch's tracer folds the value, in which case the tie-break is this class's."""
    if not torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    stack = [torch._C._get_value_trace(x)]  # type: ignore[attr-defined]
    while stack:
        node = stack.pop().node()
        if node.kind() == "prim::Param":
            return False
        stack.extend(node.inputs())
    return True
