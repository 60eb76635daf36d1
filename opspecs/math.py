"""Elementwise functions of one floating tensor."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.elementwise import (
    Branched,
    Decreasing,
    Increasing,
    Unary,
    exponent_limit,
    itself,
)
from nnfuzz.operators.intervals import even, holds_multiple, periodic
from nnfuzz.operators.operator import operator
from nnfuzz.operators.rounding import SINGLE, elementary, faded, stepwise
from nnfuzz.operators.unexportable import Unexportable

POSITIVE = 1e-4
"""A positive number that is not zero in any dtype, even where subnormals are flushed."""
POLE = 0.01
"""Least absolute cosine of an argument of Tan; five times as large in float16."""
LONGEST = 709.0
"""The largest exponent whose exponential is finite in float64."""


def exponential(u, y, x):
    """Rounding error of a function y = exp(x).

    In float32 it is computed as 2^(x log2(e)), where the constant and the product are rounded.
    """
    return u * y.abs() * (elementary(u) + (1.5 * x.abs() if u == SINGLE else 0.0)) + faded(u)


def coarse(u, units):
    """The error of `units` unit roundoffs of float32, which narrower types inherit; 0 for wider
    types."""
    return SINGLE * units if u > SINGLE else 0.0


@operator
class Exp(Increasing):
    merges = ("Log",)
    edges = True
    torch = staticmethod(torch.exp)
    within = (0.0, math.inf)
    valid = ((-math.inf, LONGEST),)

    def domain(self, x):
        return [x - exponent_limit(x)]

    def radius(self, u, y, x):
        return exponential(u, y, x)


@operator
class Log(Increasing):
    merges = ("Exp",)
    edges = True
    torch = staticmethod(torch.log)
    valid = ((POSITIVE, math.inf),)

    def radius(self, u, y, x):
        return u * (elementary(u) * y.abs() + (1 if u == SINGLE else 0.5))


@operator
class Sqrt(Increasing):
    merges = ("Mul", "Pow")
    edges = True
    torch = staticmethod(torch.sqrt)
    within = (0.0, math.inf)
    valid = ((0.0, math.inf),)
    rounding = (2, 0)
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
        """In float32 the argument is reduced by a rounded multiple of pi; no compiler reduces it in
        narrower types."""
        if u > SINGLE:
            return 4 * u * y.abs() + coarse(u, 5 * x.abs())
        return u * (4 * x.abs().clamp(max=1) + x.abs())


@operator
class Cos(Wave):
    torch = staticmethod(torch.cos)

    def radius(self, u, y, x):
        """The same as for Sin."""
        if u > SINGLE:
            return 4 * u * y.abs() + coarse(u, 4 + x.abs())
        return u * (4 + x.abs())


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
        """The argument may be off by 2u; the error is unbounded where a pole is that close.

        No compiler reduces the argument in a narrower type than float32, but the quotient of sine
        and cosine may be computed in one.
        """
        if u > SINGLE:
            return max(elementary(u), 2 * stepwise(u) + 1) * u * y.abs()
        shift = torch.tan((2 * u * x.abs()).clamp(max=1.5))
        room = (1 - shift * y.abs()).clamp(min=0)
        return 5 * u * y.abs() + shift * (1 + y * y) / room


@operator
class Asin(Increasing):
    merges = ("Sin",)
    edges = True
    torch = staticmethod(torch.asin)
    valid = ((-1.0, 1.0),)

    def radius(self, u, y, x):
        return (8 if u == SINGLE else elementary(u)) * u * y.abs()


@operator
class Acos(Decreasing):
    merges = ("Cos",)
    edges = True
    torch = staticmethod(torch.acos)
    valid = ((-1.0, 1.0),)

    def radius(self, u, y, x):
        """It may be computed as pi / 2 - Asin(x), so that the error of Asin is absolute."""
        if u > SINGLE:
            return (stepwise(u) + 1) * u * y.abs() + coarse(u, 8)
        return 8 * u if u == SINGLE else u * (2.5 * y.abs() + 1.5)


@operator
class Atan(Increasing):
    merges = ("Tan",)
    edges = True
    torch = staticmethod(torch.atan)

    def radius(self, u, y, x):
        return (6 if u == SINGLE else elementary(u)) * u * y.abs()


class Hyperbolic(Unary):
    """Base of functions that grow like exp(|x|)."""

    edges = True
    valid = ((-LONGEST, LONGEST),)

    def domain(self, x):
        return [x.abs() - exponent_limit(x)]

    def radius(self, u, y, x):
        """Error of half the sum or difference of two exponentials, which is rounded as well."""
        return exponential(u, y, x) + (u * y.abs() if u < SINGLE else 0.0)


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
    merges = ("Sinh",)
    edges = True
    unexportable = (Unexportable("torchscript", "has no symbolic function for asinh"),)
    torch = staticmethod(torch.asinh)

    def radius(self, u, y, x):
        """Error of the logarithm of |x| + sqrt(x^2 + 1), with a square, two sums and a root."""
        return u * (stepwise(u) * y.abs() + (2 if u == SINGLE else 2.5))


@operator
class Acosh(Increasing):
    """Steep at 1, where x^2 - 1 is off by u. Few results of other operators are above 1."""

    merges = ("Cosh",)
    edges = True
    weight = 0.5
    unexportable = (Unexportable("torchscript", "has no symbolic function for acosh"),)
    torch = staticmethod(torch.acosh)
    valid = ((1.0, math.inf),)
    within = (0.0, math.inf)

    def radius(self, u, y, x):
        return u * (stepwise(u) * y.abs() + 2) + (2 * u / y).clamp(max=2 * math.sqrt(u))


@operator
class Atanh(Increasing):
    merges = ("Tanh",)
    edges = True
    weight = 0.5  # as above, for values within (-1, 1)
    unexportable = (Unexportable("torchscript", "has no symbolic function for atanh"),)
    torch = staticmethod(torch.atanh)
    valid = ((-0.99, 0.99),)

    def radius(self, u, y, x):
        """Error of half the logarithm of (1 + x) / (1 - x), with a sum, a difference and a
        quotient."""
        return u * (stepwise(u) * y.abs() + (3 if u == SINGLE else 1.5))


@operator
class Erf(Increasing):
    torch = staticmethod(torch.erf)
    within = (-1.0, 1.0)
    unexportable = (
        Unexportable("dynamo", "folds constants by onnx.reference", dtypes=(DType.FLOAT64,)),
    )

    def radius(self, u, y, x):
        """Fast polynomials in float32 have an absolute error of 12 u, also near 0."""
        if u == SINGLE:
            return 12 * u
        return u * (elementary(u) * y.abs() + (0.5 if u < SINGLE else 0.0)) + coarse(u, 12)


class ToInteger(Increasing):
    """Base of functions that round to an integer: exact, with jumps."""

    whole = "always"
    step = 0.0
    """The place of the jump between two integers, from 0 to 1."""

    proxy = staticmethod(itself)

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
    """Rounding to the nearest integer; halves go to the even one."""

    edges = True
    torch = staticmethod(torch.round)
    step = 0.5
