"""Operators that return a sum of products, or a product of several elements; bounds of both."""

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
    """Bounds of a sum of one or more products whose factors are within the given ranges.

    Integers (bounds of type int) wrap around, so their bounds are infinite unless all are 0.
    """
    lo, hi = functools.reduce(products, factors)
    if any(isinstance(end, int) for factor in factors for end in factor) and (lo or hi):
        return ANY_RANGE
    return accumulated((lo, hi))


def accumulated(x: Range) -> Range:
    """Bounds of a sum of one or more numbers within a range; sums that overflow are undefined."""
    return (x[0] if x[0] >= 0 else -math.inf), (x[1] if x[1] <= 0 else math.inf)


FACTOR = 2.0**20
"""An upper bound of the factors by which attributes of operators multiply a product."""


def moderate(terms: int, tensors: Sequence[Tensor], most: float) -> bool:
    """Whether a sum of `terms` products of the tensors' elements is certainly far below `most`.

    It reads only the ends of the operands; a sum of absolute values would cost much more.
    """
    bound = FACTOR * terms
    for tensor in tensors:
        if tensor.numel():
            least, greatest = tensor.detach().aminmax()
            bound *= 1.0 + max(-least.item(), greatest.item())
    return bound < most


class Summing(OpSpec):
    """An operator that adds up `terms` products, in any order.

    The sum of their absolute values must stay below the dtype's largest number, so that every order
    gives finite results; it also bounds the rounding error.
    """

    exactness = "sum"

    adding: ClassVar[bool] = False
    """Whether the terms are elements of the input, not products."""

    unscaled: ClassVar[bool] = False
    """Whether the terms have no coefficients, so that `torch` of squared inputs is the sum of
    squared terms."""

    @per_input
    def terms(self, *tensors: Tensor) -> int:
        """How many products are added up in one element of the result."""
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
        """The argument `partial` of `sum_radius`. Default: `by_squares` if `unscaled`."""
        if not self.unscaled or self.terms(*xs) < 3:
            return None
        return by_squares(self.torch(*[x * x for x in xs]), self.terms(*xs))


def dividing(count: float) -> bool:
    """Whether a division by a number of terms rounds, as it does unless that is a power of two."""
    return math.frexp(count)[0] != 0.5


def mean_radius(u: float, x: Tensor, axes: tuple[int, ...], mean: Tensor) -> Tensor:
    """Error of a mean over axes, kept as size 1. It covers three algorithms: the sum is divided,
    the terms are divided, or a running mean is updated.

    A sum may be computed in any order (`largest_first`).
    """
    count = math.prod(x.shape[axis] for axis in axes)
    terms = x.abs() / count

    def partial(most: Tensor) -> Tensor:
        return largest_first(terms, axes, most)

    size = terms.sum(axes, keepdim=True)
    return sum_radius(u, count, size, mean, True, partial)


class Averaging(Summing):
    """A sum of `terms` numbers, divided by their number.

    An implementation may also divide the terms, which rounds them like products; divisions by
    powers of two are exact.
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
    """Interval, without a mask, of a function whose outputs are products of input elements.

    Least and greatest magnitudes are multiplied; the sign is uncertain if that of a factor is.
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

    A partial product that underflows has the error of the least number, which may grow again.
    """
    radius = factors * (2 * u * y.abs() + underflow(u) * grown)
    return radius.masked_fill(grown > greatest(u), math.inf)


class _Crossing(torch.autograd.Function):
    """The identity. Derivatives that would make a number smaller are kept at `chosen` only."""

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
    """The factors of products along axes, with derivatives that can change a product's sign.

    A product changes its sign if one factor does; if all factors shrank, it would only become 0.
    """
    size = x.detach().abs()
    return _Crossing.apply(x, size == (size.amin(tuple(axes), keepdim=True) if axes else size))


def magnitude_logs(x: Tensor) -> Tensor:
    """Logarithms of absolute values, 0 below 1: their sum bounds every partial product."""
    return x.abs().clamp(min=1.0).log()
