"""Boxes around inputs and points inside of them, for the containment property."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from nnfuzz.spec.intervals import Box


def around(x: Tensor, rng: random.Random) -> Box:
    """A box around a tensor; some elements stay exact, a few are masked now and then.

    Integers stay exact, booleans become open.
    """
    if x.is_floating_point():
        size = 10.0 ** rng.uniform(-6, 0.5)
        below, above = (size * torch.rand_like(x) * (torch.rand_like(x) < 0.7) for _ in range(2))
        box = Box(x - below, x + above)
    elif x.dtype is torch.bool:
        open_ = torch.rand(x.shape) < 0.2
        box = Box(x & ~open_, x | open_)
    else:
        box = Box(x, x)
    return box.masked(torch.rand(x.shape) < 0.1) if rng.random() < 0.3 else box


def inside(box: Box, corner: bool) -> Tensor:
    """A point of the box, at random or in a corner; anything at all where it is masked."""
    if box.lo.dtype is torch.bool:
        return torch.where(torch.rand(box.lo.shape) < 0.5, box.lo, box.hi)
    if not box.lo.is_floating_point():
        return box.lo
    share = torch.rand_like(box.lo)
    share = (share > 0.5).double() if corner else share
    x = (box.lo + (box.hi - box.lo) * share).clamp(box.lo, box.hi)
    return x if box.any is None else torch.where(box.any, x + 10 * torch.randn_like(x), x)
