"""Bounds and errors of results that are products of several elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.rounding import greatest, underflow


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


def room(x: Tensor) -> float:
    """Largest sum of `magnitude_logs` that is finite in a floating tensor's dtype, less one."""
    return math.log(torch.finfo(x.dtype).max) - 1
