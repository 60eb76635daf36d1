"""Comparisons, boolean logic and selection."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import ALL, BOOLS, FLOAT8S, FLOATS, DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.elementwise import (
    Binary,
    Broadcasting,
    Comparison,
    Unary,
    clipped_range,
)
from nnfuzz.operators.families.shape import Zeros
from nnfuzz.operators.intervals import Interval, hull, joined
from nnfuzz.operators.operator import In, operator


@operator
class Equal(Comparison):
    inputs = (In("T", ALL), In("T"))
    torch = staticmethod(torch.eq)

    def proxy(self, x, y):
        return -(x - y).abs()

    def certain(self, x, y):
        """False occurs: the input search does not make floats equal."""
        return ((0, 0),) if x.dtype.is_float else ()

    def value_range(self, x, y):
        return float(x is y), float(x is y or (x[0] <= y[1] and y[0] <= x[1]))

    def interval(self, x, y):
        if x is y:
            return super().interval(x, y)
        same = torch.eq(x.lo, y.lo)
        mask = joined(x, y, like=same)
        if x.exact and y.exact:
            return [Interval(same, same, mask)]
        sure = same & (x.lo == x.hi) & (y.lo == y.hi)
        if x.lo.dtype is torch.bool:
            return [Interval(sure, (x.lo == y.lo) | (x.hi == y.hi) | (x.lo != x.hi), mask)]
        return [Interval(sure, (x.lo <= y.hi) & (y.lo <= x.hi), mask)]


@operator
class Greater(Comparison):
    torch = staticmethod(torch.gt)


@operator
class Less(Comparison):
    torch = staticmethod(torch.lt)
    monotone = (-1, 1)


@operator
class GreaterOrEqual(Comparison):
    since = 12
    torch = staticmethod(torch.ge)


@operator
class LessOrEqual(Comparison):
    since = 12
    torch = staticmethod(torch.le)
    monotone = (-1, 1)


class OnFinite(Zeros, Unary):
    """IsInf and IsNaN, which are False for every comparable value, since comparable values are
    finite."""

    edges = True
    weight = 0.3
    inputs = (In("T", (*FLOATS, *FLOAT8S)),)
    output = DType.BOOL
    codomain = (0, 0)

    def interval(self, x):
        no = torch.zeros_like(x.lo, dtype=torch.bool)
        return [Interval(no, no, x.any)]

    def proxy(self, x):
        return x * 0

    def lowered(self, emit, x, **attributes):
        """Emits the operator; at first both took float32 and float64 only, and widening keeps the
        result."""
        if emit.opset < 20 and emit.type(x).dtype.itemsize == 2:
            x = emit("Cast", x, to=DType.FLOAT32)
        return emit(self.name, x, **attributes)


@operator
class IsNaN(OnFinite):
    torch = staticmethod(torch.isnan)

    def onnx(self, emit, x):
        return self.lowered(emit, x)


@operator
class IsInf(OnFinite):
    """Whether an element is infinite; each sign can be switched off. Source: ONNX IsInf-10."""

    detect_positive = Choice((0, 1))
    detect_negative = Choice((0, 1))

    def torch(self, x):
        infinite = torch.isinf(x)
        if not self.detect_positive:
            infinite = infinite & (x < 0)
        return infinite if self.detect_negative else infinite & (x > 0)

    def onnx(self, emit, x):
        return self.lowered(emit, x, **self.attributes)


class Logical(Binary):
    """Booleans in, booleans out."""

    edges = True
    inputs = (In("T", BOOLS), In("T"))
    codomain = (0, 1)


class Growing(Logical):
    """And, Or: monotone in both inputs; `of_ends` is the same function of 0 and 1."""

    monotone = (1, 1)
    of_ends = staticmethod(min)

    def value_range(self, x, y):
        (a, b), (c, d) = clipped_range(x, self.codomain), clipped_range(y, self.codomain)
        return self.of_ends(a, c), self.of_ends(b, d)


@operator
class And(Growing):
    proxy = staticmethod(torch.minimum)
    torch = staticmethod(torch.logical_and)


@operator
class Or(Growing):
    proxy = staticmethod(torch.maximum)
    torch = staticmethod(torch.logical_or)
    of_ends = staticmethod(max)


@operator
class Xor(Logical):
    torch = staticmethod(torch.logical_xor)

    def proxy(self, x, y):
        return (x - y).abs()

    def value_range(self, x, y):
        return (0, 0) if x is y else (0, 1)


@operator
class Not(Unary):
    merges = ("Not",)
    edges = True
    inputs = (In("T", BOOLS),)
    proxy = staticmethod(torch.neg)
    torch = staticmethod(torch.logical_not)

    def value_range(self, x):
        return max(0, 1 - x[1]), min(1, 1 - x[0])

    monotone = (-1,)
    codomain = (0, 1)


@operator
class Where(Broadcasting):
    edges = True
    selects = True
    inputs = (In("B", BOOLS), In("T", ALL), In("T"))
    torch = staticmethod(torch.where)
    modular = True
    whole = "kept"

    def proxy(self, condition, x, y):
        return condition * x + (1 - condition) * y

    def interval(self, condition, x, y):
        """Where the condition is not certain, the hull of both branches and the union of their
        masks."""
        always, maybe = condition.lo, condition.hi
        if x.lo.dtype is torch.bool:
            los = (torch.where(always, x.lo, y.lo), torch.where(maybe, x.lo, y.lo))
            his = (torch.where(always, x.hi, y.hi), torch.where(maybe, x.hi, y.hi))
            interval = Interval(los[0] & los[1], his[0] | his[1])
        elif condition.exact:
            lo = torch.where(always, x.lo, y.lo)
            interval = Interval(lo, lo if x.exact and y.exact else torch.where(always, x.hi, y.hi))
        else:
            ends = [torch.where(c, a, b) for c in (always, maybe) for a, b in self._ends(x, y)]
            interval = Interval(*hull(ends))
        if condition.any is None and x.any is None and y.any is None:
            return [interval]
        chosen = (maybe & x.mask()) | (~always & y.mask()) | condition.mask()
        return [interval.masked(chosen.broadcast_to(interval.lo.shape))]

    def _ends(self, x, y):
        return [(x.lo, y.lo), (x.hi, y.hi)]

    def value_range(self, condition, x, y):
        if condition[0] == condition[1]:
            return x if condition[0] else y
        return min(x[0], y[0]), max(x[1], y[1])
