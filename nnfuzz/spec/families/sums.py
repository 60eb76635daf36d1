"""Operators whose result is a sum of products, and what that means for their numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from nnfuzz.spec.families.elementwise import products
from nnfuzz.spec.intervals import sum_radius
from nnfuzz.spec.operator import ANY_RANGE, OpSpec, Range, per_input

if TYPE_CHECKING:
    from torch import Tensor


def largest(x: Tensor) -> float:
    """The largest finite number of a floating tensor's dtype."""
    import torch

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
        return sum_radius(u, self.terms(*xs), self.absolute(*xs), y, not self.adding)


class Averaging(Summing):
    """A sum of `terms` numbers, divided by that."""

    exactness = ""

    def domain(self, *tensors: Tensor) -> list[Tensor]:
        """The sum in the numerator must stay finite."""
        if moderate(self.terms(*tensors) ** 2, tensors, largest(tensors[0])):
            return []
        return [self.absolute(*tensors) - largest(tensors[0]) / (2 * self.terms(*tensors))]

    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        return super().radius(u, y, *xs) + 2 * u * y.abs()
