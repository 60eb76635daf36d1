"""Elementwise arithmetic with broadcasting. Integers wrap around."""

from __future__ import annotations

import math
from functools import reduce

import torch

from nnfuzz.ir.dtypes import FLOATS, NUMBERS, SIGNED, DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.elementwise import (
    Arithmetic,
    Binary,
    Branched,
    Broadcasting,
    Decreasing,
    Increasing,
    Modular,
    Unary,
    exponent_limit,
    flags,
    itself,
    largest,
    products,
    too_large,
)
from nnfuzz.operators.intervals import Interval, corners, distinct, even, holds, uncertain
from nnfuzz.operators.operator import ANY_RANGE, In, operator
from nnfuzz.operators.rounding import SINGLE, greatest, largest_whole, stepwise
from nnfuzz.operators.unexportable import CHAINED_BYTES, HALF_PROMOTED, Unexportable

AWAY = 1e-3
"""Smallest absolute value of a denominator, so that quotients stay moderate."""


@operator
class Abs(Unary):
    edges = True
    unexportable = (HALF_PROMOTED,)
    inputs = (In("T", NUMBERS),)
    whole = "kept"
    torch = staticmethod(torch.abs)

    def interval(self, x):
        return [even(torch.abs, x) if x.lo.is_floating_point() else uncertain(torch.abs, x)]

    def value_range(self, x):
        lo, hi = x
        return (0.0 if lo <= 0 <= hi else min(abs(lo), abs(hi))), max(abs(lo), abs(hi))


@operator
class Neg(Decreasing):
    merges = ("Neg",)
    edges = True
    inputs = (In("T", (*FLOATS, *SIGNED)),)
    whole = "kept"
    torch = staticmethod(torch.neg)

    def interval(self, x):
        return super().interval(x) if x.lo.is_floating_point() else [uncertain(torch.neg, x)]


@operator
class Sign(Increasing):
    inputs = (In("T", NUMBERS),)
    whole = "always"
    torch = staticmethod(torch.sign)

    def certain(self, x):
        """The input search does not find 0, so -1 or 1 occurs; -1 counts as avoidable."""
        return ((1, 1),)

    proxy = staticmethod(itself)

    def margins(self, x):
        return [x.abs()] if x.is_floating_point() else []


@operator
class Add(Modular):
    merges = ("Add", "Sub")
    edges = True
    torch = staticmethod(torch.add)
    monotone = (1, 1)

    def value_range(self, x, y):
        return x[0] + y[0], x[1] + y[1]


@operator
class Sub(Modular):
    merges = ("Add",)
    edges = True
    torch = staticmethod(torch.sub)
    monotone = (1, -1)

    def of_itself(self, a):
        if a.exact:
            zero = torch.zeros_like(a.lo)
            return Interval(zero, zero, a.any)
        # x y - x y contracted to a fused multiply-add leaves the rounding error of x y, a quarter
        # of the width that it has given the interval.
        left = (a.hi - a.lo) / 4
        return Interval(-left, left, a.any)

    def value_range(self, x, y):
        return (0.0, 0.0) if x is y else (x[0] - y[1], x[1] - y[0])


@operator
class Mul(Modular):
    merges = ("Mul", "Div")
    edges = True
    joining = "factor"
    torch = staticmethod(torch.mul)

    def floating(self, a, b):
        return corners(torch.mul, a, b)

    def of_itself(self, a):
        return even(torch.square, a)

    def value_range(self, x, y):
        return products(x, y)


@operator
class Div(Arithmetic):
    """Integers are divided towards zero.

    Source: ONNX Div-14.
    """

    merges = ("Mul",)
    edges = True
    rounding = (2.5, 0)
    joining = "first"
    unexportable = (
        Unexportable(
            "torchscript",
            "folds a quotient of two constants in float32 (torch 2.13)",
            dtypes=(DType.INT32, DType.INT64),
        ),
        CHAINED_BYTES,
    )

    def torch(self, x, y):
        if x.is_floating_point():
            return torch.div(x, y)
        return torch.div(x, divisors(x, y), rounding_mode="trunc")

    def floating(self, a, b):
        quotient = corners(torch.div, a, b)
        return quotient.masked(holds(b).broadcast_to(quotient.lo.shape))

    def of_itself(self, a):
        one = torch.ones_like(a.lo)
        return Interval(one, one, a.any).masked(holds(a))

    def inexact(self, x, y):
        """A compiler may multiply by the reciprocal, which is rounded unless the divisor is a power
        of two."""
        return _inverted(y.lo) | _inverted(y.hi)

    def undefined(self, x, y):
        return None if x.lo.is_floating_point() else undividable(x, y)

    def domain(self, x, y):
        if x.is_floating_point():
            return [AWAY - y.abs(), x.abs() - y.abs() * largest(y)]
        return undivided(x, y)

    def feasible(self, x, y):
        return max(-y[0], y[1]) >= AWAY

    def value_range(self, x, y):
        if x is y:
            return 1.0, 1.0
        if x[0] == 0 == x[1]:
            return x
        if y[0] <= 0 <= y[1]:
            return ANY_RANGE
        lo, hi = products(x, (1 / y[1], 1 / y[0]))
        return min(lo, _truncated(lo)), max(hi, _truncated(hi))


def _inverted(y):
    """Mask of the divisors whose reciprocal is rounded: all but powers of two."""
    return torch.frexp(y.abs()).mantissa != 0.5


def _truncated(x):
    return float(math.trunc(x)) if math.isfinite(x) else x


def undivided(x, y):
    """Domain terms of an integer division: no zero divisor, no quotient out of range."""
    least = torch.iinfo(x.dtype).min
    terms = [flags(y == 0)]
    return [*terms, flags((x == least) & (y == -1))] if least < 0 else terms


def undividable(x, y):
    """Mask of integer divisions that may be by zero or out of range within the intervals."""
    least = torch.iinfo(x.lo.dtype).min
    over = holds(x, least) & holds(y, -1) if least < 0 else torch.zeros_like(x.lo, dtype=torch.bool)
    return over | holds(y)


def divisors(x, y):
    """The divisors of integers, with 1 in place of those whose quotient is undefined: PyTorch
    raises for 0, and the process dies (SIGFPE) where the least integer is divided by -1.

    Exported models divide by what they are given.
    """
    if torch.jit.is_tracing() or torch.compiler.is_exporting():  # type: ignore[attr-defined]
        return y
    least = torch.iinfo(x.dtype).min
    undefined = (y == 0) | ((x == least) & (y == -1)) if least < 0 else y == 0
    return torch.where(undefined, 1, y)


@operator
class Mod(Binary):
    """`fmod=1`: the remainder has the dividend's sign (C), `fmod=0`: the divisor's (Python).

    Floats with `fmod=0` are written as x - floor(x / y) * y below opset 28. With integers,
    `fmod=1` is left out: up to opset 27 its operation "is constrained to floating point data
    types", though ONNX has a conformance test with int64. Source: ONNX Mod-13, Mod-28.
    """

    fmod = Choice(lambda op, x, *_: (0, 1) if x.dtype.is_float else (0,))

    def torch(self, x, y):
        y = y if x.is_floating_point() else divisors(x, y)
        return torch.fmod(x, y) if self.fmod else torch.remainder(x, y)

    def onnx(self, emit, x, y):
        if self.fmod or emit.opset >= 28 or not emit.type(x).dtype.is_float:
            return emit("Mod", x, y, fmod=self.fmod)
        return emit("Sub", x, emit("Mul", emit("Floor", emit("Div", x, y)), y))

    def interval(self, x, y):
        """Mod is affine while the quotient keeps its integer part. With `fmod=0`, a remainder that
        is uncertain and may be 0 belongs to a quotient that rounding takes across an integer.
        """
        if not x.lo.is_floating_point():
            return [uncertain(self.torch, x, y)]
        integer = torch.trunc if self.fmod else torch.floor
        whole = corners(lambda a, b: integer(a / b), x, y)
        interval = corners(lambda a, b: a - whole.lo * b, x, y)
        across = (interval.lo < interval.hi) & (interval.lo <= 0) & (interval.hi >= 0)
        crossed = (whole.lo != whole.hi) | (across & (self.fmod == 0))
        return [interval.masked(crossed | holds(y))]

    def undefined(self, x, y):
        return None if x.lo.is_floating_point() else undividable(x, y)

    def domain(self, x, y):
        """Quotients beyond 1/u have no fractional part, and some implementations overflow there."""
        if x.is_floating_point():
            terms = [AWAY - y.abs(), x.abs() - y.abs() / torch.finfo(x.dtype).eps]
            return terms if self.fmod else [*terms, *too_large(x.abs() + y.abs())]
        return undivided(x, y)

    def margins(self, x, y):
        if not x.is_floating_point():
            return []
        quotient = x / y
        away = (quotient - quotient.round()).abs()
        if self.fmod:  # nothing turns over at 0
            away = away.masked_fill(quotient.abs() < 0.5, 1.0)
        return [away * y.abs()]

    def feasible(self, x, y):
        return max(-y[0], y[1]) >= AWAY

    def value_range(self, x, y):
        if x is y:
            return 0, 0
        most = max(abs(y[0]), abs(y[1]))
        if not self.fmod:
            return (0 if y[0] >= 0 else -most), (0 if y[1] <= 0 else most)
        return max(-most, min(x[0], 0)), min(most, max(x[1], 0))

    def radius(self, u, y, x, divisor):
        """`fmod=0` is defined by a quotient. Near an integer the quotient may round to it, or away
        from it where it is a product with a reciprocal.
        """
        if self.fmod:
            return 2 * u * x.abs()
        slack = 2 * u * (x.abs() + divisor.abs())
        off = Div.rounding[0] * u * x.abs()
        near = torch.minimum(y.abs(), (divisor - y).abs()) <= off
        exact = (y == 0) & ((x == 0) | ~_inverted(divisor))
        return slack + (near & ~exact) * divisor.abs()


def _whole(y):
    """Whether all exponents in the range are whole: the dtype is an integer, or the range is one
    whole number."""
    return all(isinstance(end, int) for end in y) or (y[0] == y[1] and float(y[0]).is_integer())


@operator
class Pow(Broadcasting):
    """Power in the type of the base, with an exponent of any numeric type; a fractional exponent
    needs a positive base.

    The power of an integer is truncated towards zero; beyond the type or float64, and for negative
    integers as exponents, it is undefined. Source: ONNX Pow-13; numpy.power.
    """

    carries_nan = False  # of an exponent for the base 1, and of a base for the exponent 0
    keeps_sign = True
    merges = ("Sqrt",)
    inputs = (In("T", (*FLOATS, DType.INT32, DType.INT64)), In("E", NUMBERS))
    unexportable = (
        *Broadcasting.unexportable,
        Unexportable(
            "torchscript",
            "gives exponents the base's dtype, which opsets below 15 lack there (torch 2.13)",
            dtypes=(DType.BFLOAT16,),
            below=15,
        ),
    )

    def torch(self, x, y):
        if y.is_floating_point() and not x.is_floating_point():
            return torch.pow(x.double(), y.double()).to(x.dtype)
        # Explicitly, since PyTorch lets the dtype of a tensor of rank 0 yield to the other's.
        wide = torch.promote_types(x.dtype, y.dtype)
        return torch.pow(x.to(wide), y.to(wide)).to(x.dtype)

    def interval(self, x, y):
        """Extrema lie in the corners, or at 0 for integer exponents, or are not finite."""
        if not x.lo.is_floating_point():
            return [uncertain(self.torch, x, y)]
        interval = corners(self.torch, x, y)
        negative, across = x.lo < 0, (x.lo < 0) & (x.hi > 0)
        lo = torch.where(across & (interval.lo > 0), 0.0, interval.lo)
        hi = torch.where(across & (interval.hi < 0), 0.0, interval.hi)
        wild = (negative & (y.lo != y.hi)) | (holds(x) & (y.lo <= 0) & (x.lo != x.hi))
        return [Interval(lo, hi, interval.any).masked(wild)]

    def decided(self, u, x, y):
        """Before it is truncated, the power of an integer has the rounding errors of the exponent's
        type; it is exact for the bases 0 and 1 and for the exponent 0."""
        if x.lo.is_floating_point() or not y.lo.is_floating_point():
            return None
        base = x.lo.double()
        power = corners(torch.pow, Interval(base, base, x.unsure), y)
        far = power.far().abs()
        error = u * far * (6 + 5 * (y.far() * base.abs().clamp(min=1).log()).abs())
        exact = (base == 0) | (base == 1) | ((y.lo == 0) & (y.hi == 0))
        error = torch.where(exact, 0.0, error)
        lo, hi = ((end + e).to(x.lo.dtype) for end, e in ((power.lo, -error), (power.hi, error)))
        return [Interval(lo, hi, power.any).masked(~(far + base.abs() <= greatest(u)))]

    def undefined(self, x, y):
        if x.lo.is_floating_point():
            return None
        ends = (_no_integer(a, b) for a in distinct(x) for b in distinct(y))
        return reduce(torch.logical_or, ends)

    def domain(self, x, y):
        """The base must be positive, or different from 0 if the exponent is a whole number that the
        dtype holds exactly."""
        if not x.is_floating_point():
            return [flags(_no_integer(x, y))]
        size = x.abs()
        if y.is_floating_point():
            away = torch.where(y < 0, AWAY, 0.0) - size
            return [
                torch.where(y == y.round(), away, AWAY - x),
                y * size.clamp(min=AWAY).log() - exponent_limit(x),
            ]
        y = y.to(torch.float64)
        return [
            torch.where(y < 0, AWAY, 0.0) - size,
            y * size.clamp(min=AWAY).log() - exponent_limit(x),
            y.abs() - 1 / torch.finfo(x.dtype).eps,
        ]

    def margins(self, x, y):
        if x.is_floating_point() or not y.is_floating_point():
            return []
        power = torch.pow(x.double(), y.double())
        return [(power - power.round()).abs().nan_to_num()]

    def value_range(self, x, y):
        """Fractional exponents go with positive bases."""
        if y[0] == 0 == y[1]:
            return 1.0, 1.0
        odd = not (y[0] == y[1] and y[0] % 2 == 0)
        return ANY_RANGE if _whole(y) and odd and x[0] < 0 else (0.0, math.inf)

    def feasible(self, x, y):
        """Negative bases need whole exponents."""
        return x[1] >= AWAY or _whole(y)

    def demanded(self, x, y):
        return None if _whole(y) else (0.0, math.inf)

    def radius(self, u, y, x, exponent):
        if u != SINGLE:
            return (stepwise(u) + (1 if u > SINGLE else 0)) * u * y.abs()
        log = x.abs().clamp(min=torch.finfo(x.dtype).tiny).log()
        return u * y.abs() * (5 + 4 * (exponent * log).abs().clamp(max=1e4))


def _no_integer(x, y):
    """Mask of undefined powers of integers: those with a fractional exponent of a negative base or
    with a negative integer as exponent, and those that the type or float64 does not hold."""
    base, exponent = x.double(), y.double()
    lost = ~(torch.pow(base.abs(), exponent) <= largest_whole(x))
    if y.is_floating_point():
        return lost | ((base < 0) & (exponent != exponent.round()))
    return lost | (exponent < 0)


@operator
class Reciprocal(Branched):
    edges = True
    torch = staticmethod(torch.reciprocal)
    rounding = (2, 0)
    exactness = "rounded"
    monotone = (-1,)

    def poles(self, x):
        return holds(x)

    def domain(self, x):
        return [AWAY - x.abs()]

    def demanded(self, x):
        return (AWAY, math.inf) if x[0] <= 0 <= x[1] else None

    def value_range(self, x):
        return ANY_RANGE if x[0] <= 0 <= x[1] else (1 / x[1], 1 / x[0])

    def magnitude(self, x):
        return 1 / max(-x[0], x[1], AWAY)
