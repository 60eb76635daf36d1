"""Reductions of several tensors element by element, and of one tensor along axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.elementwise import Variadic, exponent_limit, too_large
from nnfuzz.operators.families.norm import shared
from nnfuzz.operators.families.reduce import ArgReduction, Magnitudes, Reduction
from nnfuzz.operators.families.shape import positive, signed
from nnfuzz.operators.families.sums import (
    Averaging,
    Summing,
    accumulated,
    crossing,
    largest,
    magnitude_logs,
    multiplied,
    product_radius,
)
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.rounding import (
    SINGLE,
    greatest,
    largest_whole,
    stepwise,
    sum_radius,
    underflow,
)
from nnfuzz.operators.unexportable import HALF_PROMOTED, Unexportable

from .math import exponential


class Folded(Variadic):
    """Base of folds over tensors by a step that grows with both operands; `of_ends` is the step for
    numbers."""

    monotone = (1,)
    whole = "kept"
    step: Callable[..., torch.Tensor] = staticmethod(torch.add)
    of_ends: Callable[..., float] = staticmethod(sum)

    def torch(self, *xs):
        return functools.reduce(self.step, xs)

    def value_range(self, *xs):
        return self.of_ends(lo for lo, _ in xs), self.of_ends(hi for _, hi in xs)


@operator
class Min(Folded):
    merges = ("Min", "Max")
    step = staticmethod(torch.minimum)
    of_ends = staticmethod(min)


@operator
class Max(Folded):
    merges = ("Max", "Min")
    leaves_out = True
    step = staticmethod(torch.maximum)
    of_ends = staticmethod(max)


@operator
class Sum(Folded):
    inputs = (In("T", FLOATS),)
    exactness = "sum"
    joining = "term"

    def domain(self, *xs):
        return too_large(sum(x.abs() for x in xs))

    def radius(self, u, y, *xs):
        if len(xs) == 1:
            return 0.0
        # Partial sums lie between the sums of the negative and of the positive numbers.
        return (len(xs) - 1) * u * (sum(x.abs() for x in xs) + y.abs()) / 2


@operator
class Mean(Sum):
    """The sum divided by the number of tensors. Source: ONNX Mean-13."""

    exactness = whole = ""

    def torch(self, *xs):
        return super().torch(*xs) / len(xs)

    def value_range(self, *xs):
        lo, hi = super().value_range(*xs)
        return lo / len(xs), hi / len(xs)

    def radius(self, u, y, *xs):
        return super().radius(u, y * len(xs), *xs) / len(xs) + 2 * u * y.abs()


SUMMED = (*FLOATS, DType.INT32, DType.INT64, DType.UINT32, DType.UINT64)
WHOLE = (*FLOATS, DType.INT32, DType.INT64)
ORDERED = (*SUMMED, DType.INT8, DType.UINT8, DType.BOOL)


def total(x, axes, keepdim):
    """The sum in the input's dtype; PyTorch alone would widen int32."""
    return torch.sum(x, axes, keepdim=keepdim, dtype=x.dtype if x.dtype is torch.int32 else None)


@operator
class ReduceSum(Reduction, Summing):
    takes_empty = True
    unexportable = (HALF_PROMOTED,)
    inputs = (In("T", SUMMED),)
    axes_input = 13
    monotone = (1,)
    adding = True
    reduce = staticmethod(total)

    def value_range(self, x):
        return accumulated(x) if self.axes else x

    def partial(self, x):
        return functools.partial(self.largest_first, x.abs())


@operator
class ReduceMean(Reduction, Averaging):
    """Means of integers are truncated; how negative ones are rounded, the standard does not say."""

    inputs = (In("T", WHOLE),)
    monotone = (1,)
    adding = True

    def reduce(self, x, axes, keepdim):
        if x.is_floating_point():
            return torch.mean(x, axes, keepdim=keepdim)
        whole = total(x, axes, keepdim)
        return torch.div(whole, max(1, x.numel()) // max(1, whole.numel()), rounding_mode="trunc")

    def undefined(self, x):
        if x.lo.is_floating_point():
            return None
        whole, size = (ReduceSum(**self.attributes).torch(v.double()) for v in (x.lo, x.lo.abs()))
        parts = (whole < 0) & (whole.remainder(self.terms(x.lo)) != 0)
        return parts | (size > largest_whole(x.lo))

    def value_range(self, x):
        return x

    def partial(self, x):
        return functools.partial(self.largest_first, x.abs() / self.terms(x))


class Extreme(Reduction):
    """ReduceMax, ReduceMin: the result is one of the elements."""

    unexportable = (HALF_PROMOTED,)
    inputs = (In("T", ORDERED),)
    monotone = (1,)
    wraps = False
    whole = "kept"

    def value_range(self, x):
        return x


@operator
class ReduceMax(Extreme):
    leaves_out = True
    reduce = staticmethod(torch.amax)


@operator
class ReduceMin(Extreme):
    reduce = staticmethod(torch.amin)


PRODUCT_AS_FLOAT = Unexportable(
    "torchscript", "returns products of integers as float32", (DType.INT32, DType.INT64)
)
LONGEST_PRODUCT = (32, 8, 4)
"""The largest size of a reduced axis, by the number of them."""


def _one_or_two(draw, rank):
    if rank == 0 or draw.chance(0.06):
        return ()
    return signed(draw, draw.subset(range(rank), 1, 1 if draw.chance(0.7) else 2), rank)


@operator
class ReduceProd(Reduction):
    """Products of integers that overflow are undefined: ONNX Runtime does not wrap around.

    A product of many random numbers is 0 or infinite, so axes are few and short.
    """

    unexportable = (HALF_PROMOTED, PRODUCT_AS_FLOAT)
    inputs = (In("T", WHOLE),)
    axes = Choice(by=lambda draw, op, first, *_: _one_or_two(draw, first.rank))

    def requires(self, x):
        yield from super().requires(x)
        most = LONGEST_PRODUCT[min(len(self.axes), len(LONGEST_PRODUCT)) - 1]
        # Products of more random numbers are 0 or infinite.
        for axis in self.axes:
            yield x.shape[axis] <= most

    def reduce(self, x, axes, keepdim):
        if torch.onnx.is_in_onnx_export():
            # PyTorch 2.13 folds ReduceProd of a constant over all axes when they are an input
            # (opset 18 on). It does not fold this identity; try the export without it some day.
            x = x.clamp(min=-torch.inf)
        for axis in sorted((a % x.dim() for a in axes), reverse=True):
            x = torch.prod(x, axis, keepdim=keepdim, dtype=x.dtype)
        return x

    def undefined(self, x):
        if x.lo.is_floating_point():
            return None
        return self._grown(x.far().double()) > largest_whole(x.lo)

    def proxy(self, x):
        return self.torch(crossing(x, self.axes))

    def sure(self, x):
        return multiplied(self.torch, x)

    def domain(self, x):
        """Every partial product must be finite in any order."""
        if not x.is_floating_point():
            return []
        logs = magnitude_logs(x)
        whole = torch.sum(logs, self.axes) if self.axes else logs
        return [whole - exponent_limit(x)]

    def _grown(self, x):
        """Upper bound of partial products in any order."""
        return self.torch(torch.clamp(x.abs(), min=1.0))

    def value_range(self, x):
        if not self.axes:
            return x
        size = max(abs(x[0]), abs(x[1]))
        top = size if size <= 1 else math.inf
        return (0.0 if 0 <= x[0] < 1 else x[0] if x[0] >= 1 else -top), top

    def radius(self, u, y, x):
        return product_radius(u, self.terms(x), y, self._grown(x))


class SumOfMagnitudes(Magnitudes, Summing):
    """Base of sums of nonnegative terms; integers wrap around."""

    unexportable = (HALF_PROMOTED,)
    inputs = (In("T", SUMMED),)

    def absolute(self, x):
        return self.torch(x)


@operator
class ReduceL1(SumOfMagnitudes):
    adding = True

    def reduce(self, x, axes, keepdim):
        return total(x.abs(), axes, keepdim)

    def partial(self, x):
        return functools.partial(self.largest_first, x.abs())


@operator
class ReduceSumSquare(SumOfMagnitudes):
    def reduce(self, x, axes, keepdim):
        return total(x * x, axes, keepdim)

    def partial(self, x):
        return functools.partial(self.largest_first, x * x)

    def domain(self, x):
        return square_summable(self, x) if x.is_floating_point() else []

    def value_range(self, x):
        least, most = super().value_range(x)
        return least * least, most * most


def square_summable(op, x):
    """Domain terms of a sum of squares."""
    return [x.abs() - math.sqrt(largest(x) / (2 * op.terms(x)))]


@operator
class ReduceL2(Magnitudes):
    """The norm of integers is truncated; in float32 it is exact as long as the sum is small."""

    inputs = (In("T", WHOLE),)

    def reduce(self, x, axes, keepdim):
        whole = x if x.is_floating_point() else x.double()
        return torch.sqrt(torch.sum(whole * whole, axes, keepdim=keepdim)).to(x.dtype)

    def domain(self, x):
        return square_summable(self, x) if x.is_floating_point() else []

    def undefined(self, x):
        """Where rounding errors of float32 may move a root across an integer."""
        if x.lo.is_floating_point():
            return None
        root = self.torch(x.far().double())
        off = torch.where(root < 1 << 11, 0.0, 4 * SINGLE * root)
        split = (root - off).floor() != (root + off).floor()
        return split | (root * root > largest_whole(x.lo))

    def radius(self, u, y, x):
        """Half the relative error of the sum of squares, with the squares and every addition, plus
        the root's."""
        lost = self.terms(x) * underflow(u)
        whole = y * y
        added = (self.largest_first(x * x, whole) / whole).nan_to_num(0.0, 0.0, 0.0)
        radius = u * ((added + 1) / 2 + 1.5) * y + torch.clamp(lost / y, max=math.sqrt(lost))
        return radius.masked_fill(y * y > greatest(u), math.inf)


@operator
class ReduceLogSum(Reduction):
    """The logarithm of a sum, which must exceed its own rounding error."""

    unexportable = (HALF_PROMOTED,)
    monotone = (1,)

    def reduce(self, x, axes, keepdim):
        return torch.log(torch.sum(x, axes, keepdim=keepdim))

    def _sum(self, x):
        return ReduceSum(**self.attributes).torch(x)

    def domain(self, x):
        whole = self._sum(x.abs())
        lost = min(1 / 16, 64 * torch.finfo(x.dtype).eps * self.terms(x))
        return [1e-4 + whole * lost - self._sum(x), whole - largest(x) / 2]

    def feasible(self, x):
        return x[1] >= 2e-4

    def demanded(self, x):
        return 1e-4, math.inf

    def value_range(self, x):
        return math.log(max(x[0], 1e-4)), math.inf

    def radius(self, u, y, x):
        whole, size = y.exp(), x.abs()
        partial = functools.partial(self.largest_first, size)
        off = sum_radius(u, self.terms(x), self._sum(size), whole, False, partial) / whole
        return u * (stepwise(u) * y.abs() + 1) - torch.log1p(-off.clamp(max=1))


@operator
class ReduceLogSumExp(Reduction):
    """The logarithm of a sum of exponentials of any numbers. Where an exponential overflows, the
    maximum must be subtracted first.
    """

    monotone = (1,)
    unexportable = (HALF_PROMOTED,)

    def reduce(self, x, axes, keepdim):
        return torch.logsumexp(x, axes, keepdim=keepdim)

    def domain(self, x):
        return [x.abs() - largest(x) / 2]

    def value_range(self, x):
        return x[0], (math.inf if self.axes else x[1])

    def radius(self, u, y, x):
        """Each exponential has its own rounding error, and the sum lacks what underflows.

        Compilers compute exp(x), or exp(x - m) with the maximum m, where the difference is rounded
        and m is added. The second form is required where exp(x) overflows or underflows completely.
        """
        shares = (x - self._spread(y, x)).exp().clamp(max=1)
        m = x.amax(self.axes, keepdim=True) if self.axes else x
        errors = torch.maximum(exponential(u, shares, x), shared(u, m - x) * shares)
        total = ReduceSum(**self.attributes).torch
        added = self.largest_first(shares, total(shares).clamp(min=1))
        whole = torch.where(y.exp() > underflow(u), y.exp(), 1.0)
        lost = self.terms(x) * underflow(u) / whole
        log = torch.maximum(y.abs(), (y - m.reshape(y.shape)).abs())
        return total(errors) + u * (added + stepwise(u) * log + y.abs() + 1) + lost

    def _spread(self, y, x):
        """The result with the reduced axes kept."""
        for axis in [] if self.keepdims else sorted(positive(self.axes, x.dim())):
            y = y.unsqueeze(axis)
        return y


@operator
class ArgMax(ArgReduction):
    def first(self, x):
        return torch.argmax(x, self.axis, keepdim=bool(self.keepdims))


@operator
class ArgMin(ArgReduction):
    smallest = True

    def first(self, x):
        return torch.argmin(x, self.axis, keepdim=bool(self.keepdims))

    def ordered(self, x):
        return -x
