"""The steps of attention: operators that composites consist of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nnfuzz.operators.families.composite import Moves
from nnfuzz.operators.families.elementwise import Increasing
from nnfuzz.operators.families.norm import log_shares, share_roundings
from nnfuzz.operators.families.sums import Summing, largest
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.rounding import faded


def split_heads(count: int) -> Moves:
    """(B, S, count * D) -> (B, count, S, D)."""
    return Moves(lambda x: x.unflatten(2, (count, -1)).transpose(1, 2))


MERGED = Moves(lambda x: x.transpose(1, 2).flatten(2))
"""(B, H, S, D) -> (B, S, H * D)."""


def repeated_heads(count: int) -> Moves:
    """(B, H, S, D) -> (B, H * count, S, D), each head `count` times in a row."""
    return Moves(lambda x: x.unsqueeze(2).expand(-1, -1, count, -1, -1).flatten(1, 2))


class Scores(Summing):
    """(B, H, S, D) and (B, H, L, D) -> (B, H, S, L): scale * q @ k^T.

    An implementation may scale the product, or both factors by the root of the scale.
    """

    exactness = ""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def torch(self, *tensors: Tensor) -> Tensor:
        q, k = tensors
        return torch.matmul(q, k.transpose(-1, -2)) * self.scale

    def terms(self, *tensors: Tensor) -> int:
        return tensors[0].shape[-1]

    def domain(self, *tensors: Tensor) -> list[Tensor]:
        """The unscaled product must stay finite, too."""
        whole = Scores(max(1.0, self.scale)).absolute(*tensors)
        return [whole - largest(tensors[0]) / 4]

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return [linear(self.torch, *intervals, weights=(0, 1))]

    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        """Runtimes hold the scale, or its root, in float32 for every dtype."""
        return super().radius(u, y, *xs) + (6 * u + 2**-23) * self.absolute(*xs)


class Softcap(Increasing):
    """c tanh(x / c)."""

    def __init__(self, cap: float) -> None:
        self.cap = cap

    def torch(self, *tensors: Tensor) -> Tensor:
        return torch.tanh(tensors[0] / self.cap) * self.cap

    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        inner = (xs[0] / self.cap).abs().clamp(max=1)
        return u * (self.cap * (10 * inner + 4) + 2 * y.abs())


class MaskedSoftmax(OpSpec):
    """Softmax over the last axis of scores (..., S, L) with some keys excluded.

    Query i attends to keys up to i + `before` and from i + `after` on; None is no limit. A second,
    boolean input that broadcasts to the scores is True for admitted keys. A row without key is 0.
    """

    within = (0.0, 1.0)

    def __init__(self, before: int | None, after: int | None = None) -> None:
        self.before = before
        self.after = after

    def allowed(self, x: Tensor, *mask: Tensor) -> Tensor | None:
        """Mask of the scores that take part; None if all do."""
        allowed = mask[0] if mask and mask[0].dtype is torch.bool else None
        s, keys = x.shape[-2:]
        away = torch.arange(keys) - torch.arange(s).unsqueeze(1)
        if self.before is not None:
            allowed = away <= self.before if allowed is None else allowed & (away <= self.before)
        if self.after is not None:
            allowed = away >= self.after if allowed is None else allowed & (away >= self.after)
        return allowed

    def torch(self, *tensors: Tensor) -> Tensor:
        x, *mask = tensors
        allowed = self.allowed(x, *mask)
        if allowed is None:
            return torch.softmax(x, -1)
        # Not -inf, so that rows without any key have derivatives.
        x = torch.where(allowed, x, torch.finfo(x.dtype).min)
        return torch.softmax(x, -1).masked_fill(~allowed, 0)

    def undefined(self, *intervals: Interval) -> Tensor | None:
        """Rows without any key: since version 1.23 ONNX defines them as 0, before as NaN."""
        x, *mask = intervals
        allowed = self.allowed(x.lo, *(m.lo for m in mask))
        if allowed is None or bool((some := allowed.any(-1, keepdim=True)).all()):
            return None
        return (~some).broadcast_to(x.lo.shape)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        x, *mask = intervals
        allowed = self.allowed(x.lo, *(m.lo for m in mask))
        logs = log_shares(self._hidden(x, allowed), -1)
        interval = Interval(logs.lo.exp(), logs.hi.exp())
        if allowed is not None:
            zero = ~allowed.broadcast_to(x.lo.shape)
            interval = Interval(interval.lo.masked_fill(zero, 0), interval.hi.masked_fill(zero, 0))
        unsure = self._unsure(x, *mask)
        return [
            interval if unsure is None else interval.masked(unsure.any(-1, True).expand_as(x.lo))
        ]

    def _hidden(self, x: Interval, allowed: Tensor | None) -> Interval:
        if allowed is None:
            return Interval(x.lo, x.hi)
        low = x.lo.min() - 800  # Exponentials vanish, and rows without any key stay finite.
        return Interval(torch.where(allowed, x.lo, low), torch.where(allowed, x.hi, low))

    def _unsure(self, x: Interval, *mask: Interval) -> Tensor | None:
        """Mask of scores that are not comparable, or whose mask element is uncertain."""
        unsure = x.any
        for m in mask:
            if m.lo.dtype is torch.bool and (not m.exact or m.any is not None):
                open_ = m.unsure.broadcast_to(x.lo.shape)
                unsure = open_ if unsure is None else unsure | open_
        return unsure

    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        x, *mask = xs
        allowed = self.allowed(x, *mask)
        top = x if allowed is None else torch.where(allowed, x, -math.inf)
        return y * (2 * u + share_roundings(u, top, -1).nan_to_num(0.0)) + faded(u) * (y > 0)
