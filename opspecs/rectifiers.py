"""Activation functions of two or three pieces, beyond the usual ones."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from nnfuzz.ir.dtypes import FLOATS, INTS, DType
from nnfuzz.operators.attributes import Choice, Real
from nnfuzz.operators.families.elementwise import Increasing, Unary, itself, largest, single
from nnfuzz.operators.intervals import Interval, uncertain
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.unexportable import SCALAR_DOUBLES

ALPHA, GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""The default alpha and gamma of ONNX's Selu, which are float32 numbers."""
POINTS = (1.0, 0.5, 0.25, 1.5, 2.0)
"""Thresholds that every floating type holds exactly."""


@operator
class Celu(Increasing):
    """x, or alpha (exp(x / alpha) - 1) where x < 0; a composition unless float32. Source: ONNX
    Celu-12."""

    since = 12
    unexportable = (SCALAR_DOUBLES,)
    kinked = True
    alpha = Real(0.1, 2.0)

    def torch(self, x):
        alpha = single(self.alpha)
        if torch.onnx.is_in_onnx_export() and x.dtype is not torch.float32:
            return x.clamp(min=0) + F.elu(x.clamp(max=0) / alpha) * alpha
        return F.celu(x, alpha)

    def onnx(self, emit, x):
        dtype = emit.type(x).dtype
        if dtype is DType.FLOAT32:
            return emit("Celu", x, alpha=self.alpha)
        zero, alpha = (emit.const(v, dtype) for v in (0.0, single(self.alpha)))
        inner = emit("Elu", emit("Div", emit("Min", x, zero), alpha), alpha=1.0)
        return emit("Add", emit("Max", x, zero), emit("Mul", inner, alpha))

    def radius(self, u, y, x):
        """As for Elu, that of alpha exp(x / alpha), with alpha rounded to the dtype."""
        return torch.where(x < 0, 5 * u * self.alpha, 0.0)


@operator
class Selu(Increasing):
    """gamma x, or gamma alpha (exp(x) - 1) where x < 0. Source: ONNX Selu-6."""

    unexportable = (SCALAR_DOUBLES,)
    alpha = Choice((ALPHA, ALPHA, 1.0, 0.5))
    kinked = True
    gamma = Choice((GAMMA, GAMMA, 1.0, 2.0))

    def torch(self, x):
        usual = (self.alpha, self.gamma) == (ALPHA, GAMMA)
        if usual and torch.onnx.is_in_onnx_export() and x.dtype is not torch.float64:
            return F.selu(x)  # Its constants have the precision of float64.
        return F.elu(x, self.alpha) * self.gamma

    def domain(self, x):
        return [self.gamma * x - largest(x)]

    def radius(self, u, y, x):
        return torch.where(x < 0, 6 * u * self.gamma * self.alpha, 2.5 * u * y.abs())


@operator
class ThresholdedRelu(Unary):
    """x where x > alpha, else 0. Source: ONNX ThresholdedRelu-10."""

    unexportable = (SCALAR_DOUBLES,)
    carries_nan = False
    """The body of ONNX gives 0 for NaN, which is not greater than alpha; PyTorch gives NaN."""
    alpha = Choice((*POINTS, -0.5))

    def torch(self, x):
        return x.masked_fill(x <= self.alpha, 0)

    def proxy(self, x):
        return F.leaky_relu(x - self.alpha, 0.3)

    def margins(self, x):
        return [(x - self.alpha).abs()]

    def interval(self, x):
        lo, hi = self.torch(x.lo), self.torch(x.hi)
        if x.exact:
            return [Interval(lo, lo, x.any)]
        jumps = (x.lo <= self.alpha) & (x.hi > self.alpha)
        return [
            Interval(
                lo.masked_fill(jumps, min(0.0, self.alpha)), hi.clamp(min=lo.clamp(max=0)), x.any
            )
        ]

    def value_range(self, x):
        lo, hi = x
        if hi <= self.alpha:
            return 0.0, 0.0
        return x if lo > self.alpha else (min(0.0, self.alpha), max(0.0, hi))


def _point(draw, op, x, *_):
    """Draws a threshold or bias of Shrink, an integer for integer inputs."""
    return draw.choice(POINTS) if x.dtype.is_float else float(draw.integer(1, 3))


def _bias(draw, op, x, *_):
    """Draws a bias, at most the threshold if the dtype has no negative numbers."""
    if draw.chance(0.2):
        return 0.0
    value = _point(draw, op, x)
    return value if x.dtype.limits[0] < 0 else min(value, op.lambd)


@operator
class Shrink(Unary):
    """x moved towards 0 by `bias`, and 0 between -lambd and lambd. Source: ONNX Shrink-9."""

    unexportable = (SCALAR_DOUBLES,)
    inputs = (In("T", (*FLOATS, *INTS)),)
    lambd = Choice(by=_point)
    bias = Choice(by=_bias)
    rounding = (1, 0)
    exactness = "rounded"

    def _number(self, value, x):
        return value if x.is_floating_point() else int(value)

    def torch(self, x):
        lambd, bias = self._number(self.lambd, x), self._number(self.bias, x)
        above = torch.where(x > lambd, x - bias, torch.zeros_like(x))
        return torch.where(x < -lambd, x + bias, above) if x.dtype.is_signed else above

    proxy = staticmethod(itself)

    def margins(self, x):
        jumps = x.is_floating_point() and self.lambd != self.bias
        return [(x.abs() - self.lambd).abs()] if jumps else []

    def interval(self, x):
        """The hull of the results of all pieces that the interval intersects."""
        if x.exact or not x.lo.is_floating_point():
            return [uncertain(self.torch, x)]
        left, right = x.lo < -self.lambd, x.hi > self.lambd
        middle = (x.hi >= -self.lambd) & (x.lo <= self.lambd)
        lows = (x.lo + self.bias, 0.0, x.lo.clamp(min=self.lambd) - self.bias)
        highs = (x.hi.clamp(max=-self.lambd) + self.bias, 0.0, x.hi - self.bias)
        pieces = (left, middle, right)
        lo = [torch.where(p, end, math.inf) for p, end in zip(pieces, lows)]
        hi = [torch.where(p, end, -math.inf) for p, end in zip(pieces, highs)]
        return [Interval(torch.stack(lo).amin(0), torch.stack(hi).amax(0), x.any)]

    def value_range(self, x):
        (lo, hi), lambd = x, self.lambd
        below = [lo + self.bias, min(hi, -lambd) + self.bias] if lo < -lambd else []
        above = [hi - self.bias, max(lo, lambd) - self.bias] if hi > lambd else []
        between = [0.0] if lo <= lambd and hi >= -lambd else []
        pieces = [*between, *below, *above]
        return min(pieces), max(pieces)
