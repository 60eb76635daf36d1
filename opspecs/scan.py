"""Running sums."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.families.axes import AXIS
from nnfuzz.spec.families.elementwise import Unary
from nnfuzz.spec.families.sums import Summing
from nnfuzz.spec.intervals import linear
from nnfuzz.spec.operator import In, operator
from nnfuzz.spec.unexportable import HALF_PROMOTED


@operator
class CumSum(Summing, Unary):
    """Sums of the elements up to each position, without it (exclusive) or from behind (reverse).

    Source: ONNX CumSum-14.
    """

    since = 14
    unexportable = (HALF_PROMOTED,)
    inputs = (In("T", (*FLOATS, DType.INT32, DType.INT64), (1, 5)),)
    axis = AXIS
    exclusive = Choice((0, 0, 1))
    reverse = Choice((0, 1))

    def requires(self, x):
        yield -x.rank <= self.axis < x.rank

    def torch(self, x):
        axis = self.axis % x.dim()
        if self.reverse:
            x = x.flip(axis)
        if self.exclusive:
            before = (slice(None),) * axis
            x = torch.cat(
                [torch.zeros_like(x[(*before, slice(0, 1))]), x[(*before, slice(0, -1))]], axis
            )
        y = torch.cumsum(x, axis, dtype=x.dtype if x.dtype is torch.int32 else None)
        return y.flip(axis) if self.reverse else y

    def onnx(self, emit, x):
        axis = emit.const(self.axis, DType.INT64)
        return emit("CumSum", x, axis, exclusive=self.exclusive, reverse=self.reverse)

    def interval(self, x):
        return [linear(self.torch, x)]

    def certain(self, x):
        return ((0, 0),) if self.exclusive else ()

    def value_range(self, x):
        lo, hi = (x[0] if x[0] >= 0 else -math.inf), (x[1] if x[1] <= 0 else math.inf)
        return (min(lo, 0.0), max(hi, 0.0)) if self.exclusive else (lo, hi)

    def terms(self, x):
        return x.shape[self.axis]
