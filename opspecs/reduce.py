"""Reductions along axes."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import FLOATS, INTS, DType
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.families.axes import signed
from nnfuzz.spec.families.reduce import ArgReduction, Reduction, touched
from nnfuzz.spec.families.sums import Summing, largest
from nnfuzz.spec.intervals import Box, ends, greatest, underflow
from nnfuzz.spec.operator import In, operator
from nnfuzz.spec.unexportable import HALF_PROMOTED

SUMMED = (*FLOATS, DType.INT32, DType.INT64)
ORDERED = (*FLOATS, DType.INT32, DType.INT64, DType.INT8, DType.UINT8)


@operator
class ReduceSum(Reduction, Summing):
    unexportable = (HALF_PROMOTED,)
    inputs = (In("T", SUMMED, (1, 5)),)
    axes_input = 13
    monotone = (1,)

    def torch(self, x):
        dtype = x.dtype if x.dtype is torch.int32 else None
        return torch.sum(x, self.axes, keepdim=bool(self.keepdims), dtype=dtype)

    def undefined(self, x):
        """Integer sums that may overflow: ONNX is silent, and ONNX Runtime saturates."""
        if x.lo.is_floating_point():
            return None
        return self.torch(x.far().double().abs()) > float(torch.iinfo(x.lo.dtype).max)

    def value_range(self, x):
        return (x[0] if x[0] >= 0 else -math.inf), (x[1] if x[1] <= 0 else math.inf)


@operator
class ReduceMean(Reduction, Summing):
    exactness = ""
    monotone = (1,)

    def torch(self, x):
        return torch.mean(x, self.axes, keepdim=bool(self.keepdims))

    def domain(self, x):
        """The sum in the numerator must stay finite."""
        return [self.absolute(x) - largest(x) / (2 * self.terms(x))]

    def value_range(self, x):
        return x

    def radius(self, u, y, x):
        return super().radius(u, y, x) + 2 * u * y.abs()


@operator
class ReduceMax(Reduction):
    unexportable = (HALF_PROMOTED,)
    inputs = (In("T", ORDERED, (1, 5)),)
    monotone = (1,)
    wraps = False

    def torch(self, x):
        return torch.amax(x, self.axes, keepdim=bool(self.keepdims))

    def value_range(self, x):
        return x


@operator
class ReduceMin(Reduction):
    unexportable = (HALF_PROMOTED,)
    inputs = (In("T", ORDERED, (1, 5)),)
    monotone = (1,)
    wraps = False

    def torch(self, x):
        return torch.amin(x, self.axes, keepdim=bool(self.keepdims))

    def value_range(self, x):
        return x


LONGEST_PRODUCT = (32, 8, 4)
"""The largest size of a reduced axis, by the number of them."""


def _one_or_two(draw, rank):
    return signed(draw, draw.subset(range(rank), 1, 1 if draw.chance(0.7) else 2), rank)


@operator
class ReduceProd(Reduction):
    """Floats only: integer products overflow, and ONNX Runtime does not wrap around then.

    A product of many random numbers is 0 or infinite, so axes are few and short.
    """

    unexportable = (HALF_PROMOTED,)
    axes = Choice(by=lambda draw, op, first, *_: _one_or_two(draw, first.rank))

    def requires(self, x):
        yield from super().requires(x)
        most = LONGEST_PRODUCT[min(len(self.axes), len(LONGEST_PRODUCT)) - 1]
        for axis in self.axes:
            yield x.shape[axis] <= most

    def torch(self, x):
        if torch.onnx.is_in_onnx_export():
            # PyTorch 2.13 folds ReduceProd of a constant over all axes when they are an input
            # (opset 18 on). It does not fold this identity; try the export without it some day.
            x = x.clamp(min=-torch.inf)
        for axis in sorted((a % x.dim() for a in self.axes), reverse=True):
            x = torch.prod(x, axis, keepdim=bool(self.keepdims))
        return x

    def sure(self, x):
        """Products of the least and of the greatest magnitudes; the sign where it is known."""
        y = self.torch(x.lo)
        if x.exact:
            return Box(y, y)
        least, most = (self.torch(m) for m in x.magnitudes())
        open_ = touched((x.lo < 0) & (x.hi > 0), self.axes, self.keepdims)
        sign = self.torch(torch.sign(x.lo + x.hi))
        return Box(
            torch.where(open_ | (sign < 0), -most, least),
            torch.where(open_ | (sign > 0), most, -least),
        )

    def domain(self, x):
        """Every partial product must stay finite, whatever the order."""
        logs = x.abs().clamp(min=1.0).log()
        return [torch.sum(logs, self.axes) - (math.log(largest(x)) - 1)]

    def _grown(self, x):
        """The largest partial product, in any order."""
        return self.torch(torch.clamp(x.abs(), min=1.0))

    def value_range(self, x):
        size = max(abs(x[0]), abs(x[1]))
        top = size if size <= 1 else math.inf
        return (0.0 if 0 <= x[0] < 1 else x[0] if x[0] >= 1 else -top), top

    def radius(self, u, y, x):
        """A partial product that underflows is off by `tiny` and may grow again."""
        grown = self._grown(x)
        radius = self.terms(x) * (2 * u * y.abs() + underflow(u) * grown)
        return radius.masked_fill(grown > greatest(u), math.inf)


@operator
class ReduceL2(Reduction):
    within = (0.0, math.inf)

    def torch(self, x):
        return torch.sqrt(torch.sum(x * x, self.axes, keepdim=bool(self.keepdims)))

    def sure(self, x):
        least, most = x.magnitudes()
        return Box(*ends(self.torch, (1,), Box(least, most)))

    def domain(self, x):
        return [x.abs() - math.sqrt(largest(x) / (2 * self.terms(x)))]

    def value_range(self, x):
        return max(x[0], -x[1], 0.0), (0.0 if x[0] == 0 == x[1] else math.inf)

    def radius(self, u, y, x):
        lost = self.terms(x) * underflow(u)
        radius = u * (self.terms(x) + 4) * y + torch.clamp(lost / y, max=math.sqrt(lost))
        return radius.masked_fill(y * y > greatest(u), math.inf)


@operator
class ArgMax(ArgReduction):
    inputs = (In("T", (*FLOATS, *INTS), (1, 5)),)

    def torch(self, x):
        return torch.argmax(x, self.axis, keepdim=bool(self.keepdims))


@operator
class ArgMin(ArgReduction):
    inputs = (In("T", (*FLOATS, *INTS), (1, 5)),)
    smallest = True

    def torch(self, x):
        return torch.argmin(x, self.axis, keepdim=bool(self.keepdims))

    def ordered(self, x):
        return -x
