"""Operators whose result is a sum of products, and what that means for their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnfuzz.spec.intervals import sum_radius
from nnfuzz.spec.operator import OpSpec

if TYPE_CHECKING:
    from torch import Tensor


def largest(x: Tensor) -> float:
    """The largest finite number of a floating tensor's dtype."""
    import torch

    return torch.finfo(x.dtype).max


class Summing(OpSpec):
    """A result that adds up `terms` products, in any order.

    Finite results need the sum of absolute values to stay below the dtype's largest number,
    whatever the order; the same sum bounds the rounding error.
    """

    exactness = "sum"

    def terms(self, *tensors: Tensor) -> int:
        """How many products add up to one element of the result."""
        raise NotImplementedError

    def absolute(self, *tensors: Tensor) -> Tensor:
        """The sum of the absolute values of the products."""
        return self.torch(*[t.abs() for t in tensors])  # type: ignore[return-value]

    def domain(self, *tensors: Tensor) -> list[Tensor]:
        x = tensors[0]
        return [self.absolute(*tensors) - largest(x) / 2] if x.is_floating_point() else []

    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        return sum_radius(u, self.terms(*xs), self.absolute(*xs), y)
