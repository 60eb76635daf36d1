"""Intervals around inputs and points inside of them, for the containment property."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from nnfuzz.operators.intervals import Interval


def around(x: Tensor, rng: random.Random) -> Interval:
    """An interval around a tensor; some elements stay exact, a few are masked now and then.

    Integers stay exact, booleans become open.
    """
    if x.is_floating_point():
        size = 10.0 ** rng.uniform(-6, 0.5)
        below, above = (size * torch.rand_like(x) * (torch.rand_like(x) < 0.7) for _ in range(2))
        interval = Interval(x - below, x + above)
    elif x.dtype is torch.bool:
        open_ = torch.rand(x.shape) < 0.2
        interval = Interval(x & ~open_, x | open_)
    else:
        interval = Interval(x, x)
    return interval.masked(torch.rand(x.shape) < 0.1) if rng.random() < 0.3 else interval


def inside(interval: Interval, corner: bool) -> Tensor:
    """A point of the interval, at random or in a corner; anything at all where it is masked."""
    if interval.lo.dtype is torch.bool:
        return torch.where(torch.rand(interval.lo.shape) < 0.5, interval.lo, interval.hi)
    if not interval.lo.is_floating_point():
        return interval.lo
    share = torch.rand_like(interval.lo)
    share = (share > 0.5).double() if corner else share
    x = (interval.lo + (interval.hi - interval.lo) * share).clamp(interval.lo, interval.hi)
    return x if interval.any is None else torch.where(interval.any, x + 10 * torch.randn_like(x), x)
