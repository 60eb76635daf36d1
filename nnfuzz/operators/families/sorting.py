"""Orders of elements, and which of them rounding may turn over."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nnfuzz.operators.families.reduce import reversed_order
from nnfuzz.operators.intervals import Interval


def in_order(x: Tensor, axis: int, largest: int = 1) -> tuple[Tensor, Tensor]:
    """(elements, positions) along an axis, largest or smallest first; of equals the first."""
    return torch.sort(x, dim=axis, descending=bool(largest), stable=True)


def settled(x: Interval, axis: int, largest: int = 1) -> Tensor:
    """Mask, in the order of `x.lo`, of elements whose rank is the same for all values in `x`.

    Masks aside. Elements that are exact may be equal; others must not touch.
    """
    if x.exact:
        return torch.ones_like(x.lo, dtype=torch.bool)
    lo, hi = _ranked(x, axis, largest)
    rest = lo.shape[axis] - 1
    before = torch.full_like(lo, math.inf)
    behind = torch.full_like(lo, -math.inf)
    before.narrow(axis, 1, rest).copy_(lo.narrow(axis, 0, rest).cummin(axis).values)
    last = hi.flip(axis).narrow(axis, 0, rest).cummax(axis).values
    behind.narrow(axis, 0, rest).copy_(last.flip(axis))
    return (hi <= before) & (lo >= behind)


def parted(x: Interval, axis: int, k: int, largest: int = 1) -> Tensor:
    """Whether the first k elements in order are the same for all values, with the axis of size 1.

    Masks aside.
    """
    if x.exact or k == x.lo.shape[axis]:
        return torch.ones_like(x.lo.narrow(axis, 0, 1), dtype=torch.bool)
    lo, hi = _ranked(x, axis, largest)
    behind = hi.narrow(axis, k, hi.shape[axis] - k)
    return lo.narrow(axis, 0, k).amin(axis, True) >= behind.amax(axis, True)


def _ranked(x: Interval, axis: int, largest: int) -> tuple[Tensor, Tensor]:
    """Ends in the order of `x.lo`, largest first; moved outwards unless they are exact."""
    order = in_order(x.lo, axis, largest)[1]
    ends = (x.lo, x.hi) if largest else (reversed_order(x.hi), reversed_order(x.lo))
    lo, hi = (end.gather(axis, order).double() for end in ends)
    far = torch.full_like(lo, math.inf)
    exact = lo == hi
    return (
        torch.where(exact, lo, torch.nextafter(lo, -far)),
        torch.where(exact, hi, torch.nextafter(hi, far)),
    )


def gaps(x: Tensor) -> Tensor:
    """Distances between neighbours in the order of all elements."""
    values = in_order(x.reshape(-1), 0, 0)[0]
    return values[1:] - values[:-1]
