"""Activation functions."""

from __future__ import annotations

import functools
import math

import torch
from torch.nn import functional as F

from nnfuzz.ir.dtypes import FLOATS, NUMBERS, SIGNED, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Real
from nnfuzz.operators.families.broadcast import narrowed
from nnfuzz.operators.families.elementwise import (
    Broadcasting,
    Gated,
    Increasing,
    itself,
    largest,
    leaking,
    products,
    single,
    too_large,
)
from nnfuzz.operators.intervals import Interval, corners, holds, uncertain
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.rounding import SINGLE, elementary, stepwise
from nnfuzz.operators.unexportable import SCALAR_DOUBLES


def negative_part(u, y, x):
    """Rounding error of x times a rounded factor where x is negative, else 0."""
    return torch.where(x < 0, 2.5 * u * y.abs(), 0.0)


ABSOLUTE = 3.0
"""Absolute error of vectorised float32 sigmoids, in unit roundoffs."""


@operator
class Relu(Increasing):
    merges = ("Clip",)
    inputs = (In("T", (*FLOATS, *SIGNED)),)
    whole = "kept"
    torch = staticmethod(torch.relu)
    proxy = staticmethod(leaking)

    def onnx(self, emit, x):
        dtype = emit.type(x).dtype
        if emit.opset >= 14 or dtype.is_float:
            return emit("Relu", x)
        return emit("Max", x, emit.const(0, dtype))


@operator
class LeakyRelu(Increasing):
    kinked = True
    alpha = Real(0.01, 2.0)

    def torch(self, x):
        return F.leaky_relu(x, single(self.alpha))

    def domain(self, x):
        return [-self.alpha * x - largest(x)]

    def radius(self, u, y, x):
        return negative_part(u, y, x)


@operator
class PRelu(Broadcasting):
    """The slope broadcasts to the input, not the other way round."""

    kinked = True
    inputs = (In("T", (*FLOATS, DType.INT32, DType.INT64)), In("T", weight=True))

    def torch(self, x, slope):
        return torch.where(x < 0, slope * x, x)

    def interval(self, x, slope):
        if not x.lo.is_floating_point():
            return [uncertain(self.torch, x, slope)]
        interval = corners(self.torch, x, slope)
        across = holds(x)
        lo = torch.where(across & (interval.lo > 0), 0.0, interval.lo)
        return [
            Interval(lo, torch.where(across & (interval.hi < 0), 0.0, interval.hi), interval.any)
        ]

    def requires(self, x, slope):
        yield slope.rank <= x.rank
        # Not a vector of channels: "slope should be unidirectional broadcastable" to the input.
        for a, b in zip(reversed(x.shape), reversed(slope.shape)):
            yield (b == a) | (b == 1)

    def type_transfer(self, x, slope):
        return [x]

    def complete(self, draw, first, dtypes):
        return [first, TensorType(dtypes[1], narrowed(draw, first.shape))]

    def infer_input_types(self, draw, first, dtypes, output):
        return self.complete(draw, output.with_dtype(dtypes[0]), dtypes)

    def domain(self, x, slope):
        return too_large(slope * x) if x.is_floating_point() else []

    def value_range(self, x, slope):
        lo, hi = products((min(x[0], 0.0), min(x[1], 0.0)), slope)
        return min(lo, max(x[0], 0.0)), max(hi, x[1])

    def radius(self, u, y, x, slope):
        return negative_part(u, y, x)


def expelled(u, y, size):
    """Rounding error of size * (exp(x) - 1). The error of the exponential is known for all types
    but float32."""
    return 4 * u * size if u == SINGLE else u * (4 * y.abs() + 1.5 * size)


@operator
class Elu(Increasing):
    kinked = True
    alpha = Real(0.1, 2.0)

    def torch(self, x):
        return F.elu(x, single(self.alpha))

    def radius(self, u, y, x):
        """Where x < 0, alpha (exp(x) - 1) may cancel, so the error is that of alpha exp(x), about
        alpha."""
        return torch.where(x < 0, expelled(u, y, self.alpha), 0.0)


@operator
class Sigmoid(Increasing):
    torch = staticmethod(torch.sigmoid)
    within = (0.0, math.inf)

    def radius(self, u, y, x):
        """Computed as (1 + tanh(x / 2)) / 2, which is inexact where it is small, or as 1 / (1 +
        exp(-x)).

        In the second form the exponential is the share 1 - y of the sum; the sum and its reciprocal
        are rounded.
        """
        if u == SINGLE:
            return u * (elementary(u) * y.abs() + ABSOLUTE)
        tangent, size = (1 - 2 * y).abs(), y.abs()
        half = stepwise(u) * tangent / 2 + size
        steps = size * (stepwise(u) * (1 - y).clamp(min=0) + 2)
        return u * torch.maximum(torch.maximum(half, steps), elementary(u) * size)


@operator
class HardSigmoid(Increasing):
    kinked = True
    unexportable = (SCALAR_DOUBLES,)
    alpha = Real(0.05, 1.0)
    beta = Real(0.0, 1.0)

    within = (0.0, 1.0)

    def torch(self, x):
        return (x * single(self.alpha) + single(self.beta)).clamp(0, 1)

    proxy = staticmethod(itself)

    def radius(self, u, y, x):
        inner = x * self.alpha + self.beta
        # A little beyond the kinks, since the inner value is rounded before it is clipped.
        bent = (inner > -0.01) & (inner < 1.01)
        # Alpha, its product with x, beta and the sum are rounded.
        steps = 2 * self.alpha * x.abs() + self.beta + y.abs()
        return torch.where(bent, u * steps.clamp(min=u), 0.0)


@operator
class HardSwish(Gated):
    """x * HardSigmoid(x), alpha 1/6 and beta 1/2. Source: ONNX HardSwish-14."""

    torch = staticmethod(F.hardswish)
    least = (-1.5, -0.375)

    def onnx(self, emit, x):
        if emit.opset >= 14:
            return emit("HardSwish", x)
        return emit("Mul", x, emit("HardSigmoid", x, alpha=1 / 6, beta=0.5))

    def domain(self, x):
        return [x.abs() - largest(x) / 4]

    def radius(self, u, y, x):
        """ONNX stores 1/6 as float32 for every type, which is off by 2^-25; above 3 the result is x
        * 6 / 6, not x.

        The product alpha x is rounded twice, the sum with beta once, and the product with x once.
        """
        size = x.abs()
        slope = size.clamp(max=3.1) / 6
        gate = (x / 6 + 0.5).clamp(0, 1)
        inner = torch.where(size < 3.1, slope * 2.0**-25, 0.0)
        return torch.where(x > -3.1, size * (u * (2 * slope + 0.5 + 2.5 * gate) + inner), 0.0)


@operator
class Tanh(Increasing):
    edges = True
    torch = staticmethod(torch.tanh)

    def radius(self, u, y, x):
        """Approximations in float32 have an absolute error of 3 u and 4 u |x|.

        In other types, the error of e = exp(2 x) or exp(2 |x|) changes the result by (1 - y^2) / 2
        of itself. Numerator, denominator and quotient of (e - 1) / (e + 1) are rounded; in float64,
        so are sum, quotient and difference of 1 - 2 / (e + 1), unless tanh is libm's with two units
        in the last place.
        """
        size = y.abs()
        if u == SINGLE:
            return u * (4 * x.abs().clamp(max=1) + 3)
        moved = stepwise(u) * (1 - size * size).clamp(min=0) / 2
        if u > SINGLE:
            return u * torch.maximum(moved + 3 * size, 4 * size)
        return u * torch.maximum(moved + 2 * (1 - y) + size, 4 * size)


@operator
class Softplus(Increasing):
    """log(1 + exp(x)) for any x; an implementation in which exp(x) alone overflows is wrong."""

    within = (0.0, math.inf)

    def torch(self, x):
        return F.softplus(x, threshold=40)

    def radius(self, u, y, x):
        """In float32 it may be computed as x + log(1 + exp(-x)), also for negative x where that is
        finite.

        In other types the exponential is the share sigmoid(x) of the rounded sum whose logarithm is
        taken.
        """
        if u == SINGLE:
            return u * (4 * y.abs() + 2.5 * x.clamp(min=-89).abs() + 2)
        steps = stepwise(u) * (y.abs() + torch.sigmoid(x)) + 1
        return u * torch.maximum(steps, 4 * y.abs())


@operator
class Softsign(Increasing):
    unexportable = (SCALAR_DOUBLES,)
    torch = staticmethod(F.softsign)
    within = (-1.0, 1.0)
    codomain = (-1, 1)
    rounding = (3, 0)
    """A sum, its reciprocal and a product."""


LEAST_GELU = {
    "none": (-0.7517915242, -0.1699712074),
    "tanh": (-0.7524614221, -0.1700408230),
}
"""The minimum of Gelu and its place, to ten digits."""


@operator
class Gelu(Gated):
    """x * Phi(x), exactly or by a tanh; a composition below opset 20. Source: ONNX Gelu-20."""

    approximate = Choice(("none", "tanh"))

    def torch(self, x):
        return F.gelu(x, approximate=self.approximate)

    @property
    def least(self):
        return LEAST_GELU[self.approximate]

    def onnx(self, emit, x):
        if emit.opset >= 20:
            return emit("Gelu", x, approximate=self.approximate)
        one, half = (emit.const(v, emit.type(x).dtype) for v in (1.0, 0.5))
        phi = self._tanh(emit, x) if self.approximate == "tanh" else self._erf(emit, x)
        return emit("Mul", emit("Mul", x, half), emit("Add", phi, one))

    def _erf(self, emit, x):
        root = emit.const(math.sqrt(2), emit.type(x).dtype)
        return emit("Erf", emit("Div", x, root))

    def _tanh(self, emit, x):
        dtype = emit.type(x).dtype
        cube = emit("Mul", emit("Mul", x, x), emit("Mul", x, emit.const(0.044715, dtype)))
        scale = emit.const(math.sqrt(2 / math.pi), dtype)
        return emit("Tanh", emit("Mul", emit("Add", x, cube), scale))

    def radius(self, u, y, x):
        """The absolute error of 1 + erf decides.

        ONNX defines the form with tanh as a function with float32 constants for every type, so the
        argument of tanh has a relative error of 2^-24, and the result that times the slope. In all
        types but float32 the steps are known: erf or tanh, its argument, the sum with 1 and the
        product with x.
        """
        size = x.abs()
        if self.approximate == "none":
            if u == SINGLE:
                return 8 * u * size
            slope = math.sqrt(2 / math.pi) * size * torch.exp(-x * x / 2)
            inner = stepwise(u) * torch.erf(size * math.sqrt(0.5)) + 0.5 + 2 * slope
            return u * torch.maximum(size / 2 * inner + 2 * y.abs(), 4 * y.abs())
        cube = 0.044715 * size**3
        whole = math.sqrt(2 / math.pi) * (size + cube)
        slope = 1 / torch.cosh(whole.clamp(max=300)).square()
        constants = size * whole * slope * 2**-25
        if u == SINGLE:
            return 8 * u * size + constants
        off = 3 * whole + 4 * math.sqrt(2 / math.pi) * cube
        inner = Tanh().radius(u, torch.tanh(whole), whole) + u * slope * off
        return torch.maximum(size / 2 * inner + 2 * u * y.abs(), 4 * u * y.abs()) + constants


def _end(side):
    """Draws a bound of Clip in the input's kind of number, sometimes a max below the min, sometimes
    None, which means absent."""

    def draw_end(draw, op, x, *_):
        first = op.__dict__.get("min")
        other = first if side == "max" else op.__dict__.get("max", 0)
        if draw.chance(0.15 if other is not None else 0.05):
            return None
        if side == "min" and draw.chance(0.2):  # that of a Relu
            return 0.0 if x.dtype.is_float else 0
        least = first if first is not None else max(-8, x.dtype.limits[0])
        # Narrow ranges too, so that two of them may have nothing in common.
        lo, hi = (least, draw.choice((8, least + 1))) if side == "max" else (least, 4)
        if first is not None and draw.chance(0.03):
            lo, hi = max(-8, x.dtype.limits[0]), first
        return round(draw.real(lo, hi), 1) if x.dtype.is_float else draw.integer(lo, hi)

    return Choice(by=draw_end)


@operator
class Clip(Increasing):
    """Bounds are numbers of the input's kind; None, for one or both of them, means absent. If they
    cross, all is the maximum. Source: ONNX Clip-13."""

    merges = ("Clip", "Relu")
    kinked = True
    inputs = (In("T", NUMBERS),)
    min = _end("min")
    max = _end("max")

    def refusal(self, exporter, opset, *inputs):
        """Before opset 13 it is not said which of crossing bounds counts."""
        crossing = None not in (self.min, self.max) and self.min > self.max and opset < 13
        return "bounds cross" if crossing else super().refusal(exporter, opset, *inputs)

    def torch(self, x):
        least, most = self.bounds()
        return x.clone() if least is most is None else torch.clamp(x, least, most)

    def bounds(self):
        """The bounds as opsets before 11 store them: in float32."""
        ends = (self.min, self.max)
        return [single(end) if isinstance(end, float) else end for end in ends]

    proxy = staticmethod(itself)

    def radius(self, u, y, x):
        """Where an end of an interval is clamped to a bound, the bound's rounding to the dtype
        counts."""
        y = self.torch(x)
        ends = [y == end for end in self.bounds() if end is not None]
        bounded = functools.reduce(torch.logical_or, ends, torch.zeros_like(y, dtype=torch.bool))
        return torch.where(bounded, u * y.abs(), 0.0)

    def onnx(self, emit, x):
        dtype = emit.type(x).dtype
        ends = ["" if end is None else emit.const(end, dtype) for end in self.bounds()]
        return emit("Clip", x, *ends)
