"""Operators whose result is a sum of products, or a product of several elements; bounds of both."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnfuzz.operators.families.elementwise import products
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ANY_RANGE, OpSpec, Range, per_input
from nnfuzz.operators.rounding import by_squares, greatest, largest_first, sum_radius, underflow


def largest(x: Tensor) -> float:
    """The largest finite number of a floating tensor's dtype."""
    return torch.finfo(x.dtype).max


def summed(*factors: Range) -> Range:
    """Bounds of a sum of one or more products of numbers within ranges.

    Integers, whose bounds are of type int, wrap around: nothing is known unless all are 0.
    """
    lo, hi = functools.reduce(products, factors)
    if any(isinstance(end, int) for factor in factors for end in factor) and (lo or hi):
        return ANY_RANGE
    return accumulated((lo, hi))


def accumulated(x: Range) -> Range:
    """Bounds of sums of one number or more from a range; those that overflow are undefined."""
    return (x[0] if x[0] >= 0 else -math.inf), (x[1] if x[1] <= 0 else math.inf)


FACTOR = 2.0**20
"""More than the attributes of an operator multiply a product by."""


def moderate(terms: int, tensors: Sequence[Tensor], most: float) -> bool:
    """Whether so many products of the tensors' elements are far from `most` for certain.

    It costs a look at the ends of the operands, where the sum of absolute values costs as much as
    the operator does.
    """
    bound = FACTOR * terms
    for tensor in tensors:
        if tensor.numel():
            least, greatest = tensor.detach().aminmax()
            bound *= 1.0 + max(-least.item(), greatest.item())
    return bound < most


class Summing(OpSpec):
    """A result that adds up `terms` products, in any order.

    Finite results need the sum of absolute values to stay below the dtype's largest number,
    whatever the order; the same sum bounds the rounding error.
    """

    exactness = "sum"

    adding: ClassVar[bool] = False
    """Whether the terms are elements of the input as they are, and no products."""

    unscaled: ClassVar[bool] = False
    """Whether the terms have no coefficients, so that `torch` of the inputs' squares is the sum of
    their squares."""

    @per_input
    def terms(self, *tensors: Tensor) -> int:
        """How many products add up to one element of the result."""
        raise NotImplementedError

    @per_input
    def absolute(self, *tensors: Tensor) -> Tensor:
        """The sum of the absolute values of the products."""
        return self.torch(*[t.abs() for t in tensors])

    @per_input
    def domain(self, *tensors: Tensor) -> list[Tensor]:
        x = tensors[0]
        if not x.is_floating_point() or moderate(self.terms(*tensors), tensors, largest(x)):
            return []
        return [self.absolute(*tensors) - largest(x) / 2]

    @per_input
    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        return sum_radius(
            u, self.terms(*xs), self.absolute(*xs), y, not self.adding, self.partial(*xs)
        )

    @per_input
    def partial(self, *xs: Tensor) -> Callable[[Tensor], Tensor] | None:
        """The `partial` of `sum_radius`. Default: by squares where the terms are `unscaled`."""
        if not self.unscaled or self.terms(*xs) < 3:
            return None
        return by_squares(self.torch(*[x * x for x in xs]), self.terms(*xs))


def dividing(count: float) -> bool:
    """Whether a division by a number of terms rounds; by powers of two it does not."""
    return math.frexp(count)[0] != 0.5


def mean_radius(u: float, x: Tensor, axes: tuple[int, ...], mean: Tensor) -> Tensor:
    """Error of a mean over axes, kept as size 1: the sum is divided, or its terms are, or each
    element moves the mean of those before it by a share of its distance.

    The sum may run in any order (`largest_first`).
    """
    count = math.prod(x.shape[axis] for axis in axes)
    terms = x.abs() / count

    def partial(most: Tensor) -> Tensor:
        return largest_first(terms, axes, most)

    size = terms.sum(axes, keepdim=True)
    return sum_radius(u, count, size, mean, True, partial)


class Averaging(Summing):
    """A sum of `terms` numbers, divided by that.

    Or the terms are divided, which rounds them as if they were products; by powers of two both are
    exact.
    """

    exactness = ""

    def domain(self, *tensors: Tensor) -> list[Tensor]:
        """The sum in the numerator must stay finite."""
        x = tensors[0]
        if not x.is_floating_point() or moderate(self.terms(*tensors) ** 2, tensors, largest(x)):
            return []
        return [self.absolute(*tensors) - largest(x) / (2 * self.terms(*tensors))]

    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        count = self.terms(*xs)
        products = self.varying or dividing(count)
        return sum_radius(u, count, self.absolute(*xs), y, products, self.partial(*xs))

    @property
    def varying(self) -> bool:
        """Whether some sums are divided by less than `terms`."""
        return False


def multiplied(f: Callable[..., Tensor], *intervals: Interval) -> Interval:
    """Ends, without a mask, of a function whose every output is a product of input elements.

    Least and greatest magnitudes multiply; the sign is open where a factor's is.
    """
    y = f(*[b.lo for b in intervals])
    if all(b.exact for b in intervals):
        return Interval(y, y)
    least, most = (f(*ends) for ends in zip(*[b.magnitudes() for b in intervals]))
    open_ = f(*[torch.where((b.lo < 0) & (b.hi > 0), 0.0, 1.0).to(y) for b in intervals]) == 0
    sign = f(*[torch.sign(b.lo + b.hi) for b in intervals])
    return Interval(
        torch.where(open_ | (sign < 0), -most, least), torch.where(open_ | (sign > 0), most, -least)
    )


def product_radius(u: float, factors: float | Tensor, y: Tensor, grown: Tensor) -> Tensor:
    """Error of a product of `factors` factors; `grown` is the largest partial product in any order.

    A partial product that underflows is off by the least number and may grow again.
    """
    radius = factors * (2 * u * y.abs() + underflow(u) * grown)
    return radius.masked_fill(grown > greatest(u), math.inf)


class _Crossing(torch.autograd.Function):
    """The identity; where the derivative makes a number smaller, it is kept for `chosen` only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, chosen: Tensor) -> Tensor:
        ctx.save_for_backward(x, chosen)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        x, chosen = ctx.saved_tensors
        (gradient,) = gradients
        return gradient.masked_fill((gradient * x > 0) & ~chosen, 0.0), None


def crossing(x: Tensor, axes: Sequence[int]) -> Tensor:
    """The factors of products along axes, for derivatives that can change a product's sign.

    A product crosses zero where one factor does. All of them shrinking at the same time would only
    make it zero.
    """
    size = x.detach().abs()
    return _Crossing.apply(x, size == (size.amin(tuple(axes), keepdim=True) if axes else size))


def magnitude_logs(x: Tensor) -> Tensor:
    """Logarithms of the absolute values, 0 below 1: their sum bounds every partial product."""
    return x.abs().clamp(min=1.0).log()
