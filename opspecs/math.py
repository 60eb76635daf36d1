"""Elementwise functions of one floating tensor."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.spec.families.elementwise import Branched, Decreasing, Increasing, Unary, exponent_limit
from nnfuzz.spec.intervals import even, holds_multiple, periodic
from nnfuzz.spec.operator import operator
from nnfuzz.spec.unexportable import Unexportable

POSITIVE = 1e-4
"""The least positive number that no dtype takes for zero, even when it flushes subnormals."""
POLE = 0.01
"""How far Tan stays from its poles, as a cosine; five times that in float16."""
LONGEST = 709.0
"""The largest exponent whose exponential is finite in float64."""


@operator
class Exp(Increasing):
    edges = True
    torch = staticmethod(torch.exp)
    within = (0.0, math.inf)
    valid = ((-math.inf, LONGEST),)

    def domain(self, x):
        return [x - exponent_limit(x)]

    def radius(self, u, y, x):
        return u * y.abs() * (8 + 2 * x.abs())


@operator
class Log(Increasing):
    edges = True
    torch = staticmethod(torch.log)
    valid = ((POSITIVE, math.inf),)
    rounding = (8, 2)


@operator
class Sqrt(Increasing):
    edges = True
    torch = staticmethod(torch.sqrt)
    within = (0.0, math.inf)
    valid = ((0.0, math.inf),)
    rounding = (4, 0)
    exactness = "rounded"


class Wave(Unary):
    edges = True
    within = (-1.0, 1.0)
    maximum_at = 0.0

    def interval(self, x):
        return [periodic(self.torch, x, self.maximum_at)]


@operator
class Sin(Wave):
    torch = staticmethod(torch.sin)
    maximum_at = math.pi / 2

    def radius(self, u, y, x):
        return u * (8 * x.abs().clamp(max=1) + 2 * x.abs())


@operator
class Cos(Wave):
    torch = staticmethod(torch.cos)

    def radius(self, u, y, x):
        return u * (8 + 2 * x.abs())


@operator
class Tan(Branched):
    edges = True
    torch = staticmethod(torch.tan)
    monotone = (1,)

    def domain(self, x):
        return [POLE * (5 if x.dtype is torch.float16 else 1) - x.cos().abs()]

    def poles(self, x):
        return holds_multiple(x, math.pi / 2, math.pi)

    def radius(self, u, y, x):
        """The argument may be off by 2u; unbounded where a pole is that near."""
        shift = torch.tan((2 * u * x.abs()).clamp(max=1.5))
        room = (1 - shift * y.abs()).clamp(min=0)
        return 8 * u * y.abs() + shift * (1 + y * y) / room


@operator
class Asin(Increasing):
    edges = True
    torch = staticmethod(torch.asin)
    valid = ((-1.0, 1.0),)
    rounding = (8, 0)


@operator
class Acos(Decreasing):
    edges = True
    torch = staticmethod(torch.acos)
    valid = ((-1.0, 1.0),)
    rounding = (0, 8)


@operator
class Atan(Increasing):
    edges = True
    torch = staticmethod(torch.atan)
    rounding = (8, 0)


class Hyperbolic(Unary):
    """Functions that grow like exp(|x|)."""

    edges = True
    valid = ((-LONGEST, LONGEST),)

    def domain(self, x):
        return [x.abs() - exponent_limit(x)]

    def radius(self, u, y, x):
        return u * y.abs() * (8 + 2 * x.abs())


@operator
class Sinh(Hyperbolic, Increasing):
    unexportable = (Unexportable("torchscript", "has no symbolic function for sinh"),)
    torch = staticmethod(torch.sinh)


@operator
class Cosh(Hyperbolic):
    unexportable = (Unexportable("torchscript", "has no symbolic function for cosh"),)
    torch = staticmethod(torch.cosh)
    codomain = (1, math.inf)

    def interval(self, x):
        return [even(torch.cosh, x, 1.0)]


@operator
class Asinh(Increasing):
    edges = True
    unexportable = (Unexportable("torchscript", "has no symbolic function for asinh"),)
    torch = staticmethod(torch.asinh)
    rounding = (8, 2)


@operator
class Acosh(Increasing):
    """Steep at 1, where x^2 - 1 is off by u. Few values behind other operators are above 1."""

    edges = True
    weight = 0.5
    unexportable = (Unexportable("torchscript", "has no symbolic function for acosh"),)
    torch = staticmethod(torch.acosh)
    valid = ((1.0, math.inf),)
    within = (0.0, math.inf)

    def radius(self, u, y, x):
        return u * (8 * y.abs() + 2) + (2 * u / y).clamp(max=2 * math.sqrt(u))


@operator
class Atanh(Increasing):
    edges = True
    weight = 0.5  # as above, for values within (-1, 1)
    unexportable = (Unexportable("torchscript", "has no symbolic function for atanh"),)
    torch = staticmethod(torch.atanh)
    valid = ((-0.99, 0.99),)
    rounding = (8, 4)


@operator
class Erf(Increasing):
    torch = staticmethod(torch.erf)
    within = (-1.0, 1.0)
    rounding = (0, 12)
    unexportable = (
        Unexportable("dynamo", "folds constants by onnx.reference", dtypes=(DType.FLOAT64,)),
    )


class ToInteger(Increasing):
    """Rounding to an integer: exact, with steps."""

    whole = "always"
    step = 0.0
    """Where, between two integers, the function jumps."""

    def proxy(self, x):
        return x

    def margins(self, x):
        shifted = x - self.step
        return [(shifted - shifted.round()).abs()]


@operator
class Floor(ToInteger):
    edges = True
    torch = staticmethod(torch.floor)


@operator
class Ceil(ToInteger):
    edges = True
    torch = staticmethod(torch.ceil)


@operator
class Round(ToInteger):
    """Halves go to the even neighbour."""

    edges = True
    torch = staticmethod(torch.round)
    step = 0.5
