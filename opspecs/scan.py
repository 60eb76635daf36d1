"""Running sums and products."""

from __future__ import annotations

import math

import torch

from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.elementwise import Unary, exponent_limit
from nnfuzz.operators.families.shape import Along
from nnfuzz.operators.families.sums import (
    Summing,
    accumulated,
    magnitude_logs,
    multiplied,
    product_radius,
)
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.unexportable import HALF_PROMOTED, Unexportable

from .reduce import SUMMED


class Running(Along, Unary):
    """Base of running results over the elements up to each position, or from it on with `reverse`;
    `exclusive` leaves the position itself out."""

    sharp = False
    inputs = (In("T", SUMMED, (1, 5)),)
    as_inputs = ("axis",)
    exclusive = Choice((0, 0, 1))
    reverse = Choice((0, 1))
    neutral = 0
    """The result before the first element."""

    def run(self, x, axis):
        """The running result, forward and inclusive."""
        raise NotImplementedError

    def torch(self, x):
        axis = self.axis % x.dim()
        if self.reverse:
            x = x.flip(axis)
        if self.exclusive:
            before = (slice(None),) * axis
            first = torch.full_like(x[(*before, slice(0, 1))], self.neutral)
            x = torch.cat([first, x[(*before, slice(0, -1))]], axis)
        y = self.run(x, axis)
        return y.flip(axis) if self.reverse else y

    def certain(self, x):
        return ((self.neutral, self.neutral),) if self.exclusive else ()

    def inclusive_range(self, x):
        """Bounds of the results with at least one element."""
        raise NotImplementedError

    def value_range(self, x):
        lo, hi = self.inclusive_range(x)
        return (min(lo, self.neutral), max(hi, self.neutral)) if self.exclusive else (lo, hi)


@operator
class CumSum(Summing, Running):
    """Source: ONNX CumSum-14."""

    adding = unscaled = True
    unexportable = (HALF_PROMOTED,)

    def run(self, x, axis):
        return torch.cumsum(x, axis, dtype=x.dtype if x.dtype is torch.int32 else None)

    def terms(self, x):
        return x.shape[self.axis]

    def interval(self, x):
        return [linear(self.torch, x)]

    def inclusive_range(self, x):
        return accumulated(x)


@operator
class CumProd(Running):
    """Integer products that overflow are undefined. Source: ONNX CumProd-26."""

    since = 26
    unexportable = tuple(Unexportable(e, "stays below opset 26") for e in ("torchscript", "dynamo"))
    neutral = 1
    most = 32
    """The largest size of the axis, since a product of many random numbers is 0 or infinite."""

    def requires(self, x):
        yield from super().requires(x)
        yield x.shape[self.axis] <= self.most

    def run(self, x, axis):
        return torch.cumprod(x, axis, dtype=x.dtype)

    def _grown(self, x):
        return self.torch(x.abs().double().clamp(min=1.0))

    def domain(self, x):
        return (
            [magnitude_logs(x).sum(self.axis) - exponent_limit(x)] if x.is_floating_point() else []
        )

    def undefined(self, x):
        if x.lo.is_floating_point():
            return None
        return self._grown(x.far()) > float(torch.iinfo(x.lo.dtype).max)

    def interval(self, x):
        """Results that depend on a masked element or an uncertain integer are not comparable."""
        unknown = x.any if x.exact or x.lo.is_floating_point() else x.unsure
        if not x.lo.is_floating_point():
            x = Interval(x.lo, x.lo)
        mask = None if unknown is None else self.torch((~unknown).double()) == 0
        return [multiplied(self.torch, x).masked(mask)]

    def inclusive_range(self, x):
        top = 1.0 if max(abs(x[0]), abs(x[1])) <= 1 else math.inf
        return (0.0 if x[0] >= 0 else -top), top

    def radius(self, u, y, x):
        return product_radius(u, x.shape[self.axis], y, self._grown(x))
