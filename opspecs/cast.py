"""Conversion between element types."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.families.elementwise import Unary, within
from nnfuzz.spec.intervals import Box, holds, monotone, uncertain
from nnfuzz.spec.operator import ANY_RANGE, In, operator


@operator
class Cast(Unary):
    """Floats are truncated towards zero, integers keep their low bits, anything but 0 is true.

    A float outside of the integer's range is undefined. Source: ONNX Cast-13.
    """

    inputs = (In("T", ALL),)
    output = "to"
    to = Choice(ALL)

    def torch(self, x):
        return x.to(self.to.torch)

    def proxy(self, x):
        return x.abs() if self.to.is_bool else x

    def onnx_attributes(self):
        return {"to": self.to.onnx}

    def bounds(self, source: DType):
        """The range of values that the target holds; unbounded where that is no question."""
        if self.to.is_bool or not (source.is_float or self.to.is_float):
            return ANY_RANGE
        lo, hi = self.to.limits
        return 0.999 * lo, 0.999 * hi

    def domain(self, x):
        source = DType.of(x.dtype)
        (lo, hi), (least, most) = self.bounds(source), source.limits
        if lo <= least and most <= hi:
            return []
        wide = x if source.is_float else x.to(torch.float64)
        return [lo - wide, wide - hi]

    def feasible(self, x):
        if self.to.is_bool:
            return True
        lo, hi = self.to.limits
        return x[0] <= 0.999 * hi and x[1] >= 0.999 * lo

    def value_range(self, x):
        return (0, 1) if self.to.is_bool else self._fitting(x)

    def _fitting(self, x):
        lo, hi = self.to.limits
        if self.to.is_float:
            return within(x, (lo, hi))
        inside = lo <= x[0] and x[1] <= hi
        return (math.trunc(x[0]), math.trunc(x[1])) if inside else (lo, hi)

    def margins(self, x):
        if not x.is_floating_point() or self.to.is_float:
            return []
        if self.to.is_bool:
            return [x.abs()]
        return [torch.where(x.abs() < 0.5, 1 - x.abs(), (x - x.round()).abs())]

    def interval(self, x):
        source = x.lo.dtype
        if self.to.is_float and source.is_floating_point:
            # A compiler may leave the rounding out, where it is undone later.
            a, b = self.torch(x.lo).to(source), self.torch(x.hi).to(source)
            return [Box(torch.minimum(x.lo, a), torch.maximum(x.hi, b), x.any)]
        if self.to.is_bool:
            zero = (x.lo == 0) & (x.hi == 0)
            return [Box(~holds(x), ~zero, x.any)] if source is not torch.bool else [x]
        wraps = not (self.to.is_float or source.is_floating_point or source is torch.bool)
        return [uncertain(self.torch, x) if wraps else monotone(self.torch, (1,), x)]

    def undefined(self, x):
        if not self.to.is_int or not x.lo.is_floating_point():
            return None
        least, most = self.to.limits
        return (x.lo <= float(least - 1)) | (x.hi >= float(most + 1))

    def radius(self, u, y, x):
        """`u` is the target's unit roundoff."""
        return torch.where(x == y, 0.0, u * y.abs()) if self.to.is_float else 0.0
