"""Resize, axis by axis."""

from __future__ import annotations

import torch
from torch import Tensor


def resize(a, x, roi=None, scales=None, sizes=None, weight=lambda t: t):
    """Nearest (asymmetric or half_pixel, floor or round) and linear; `weight` may spoil weights."""
    wanted = (
        sizes.tolist()
        if sizes is not None and sizes.numel()
        else [int(d * float(s)) for d, s in zip(x.shape, scales)]
    )
    for axis, size in enumerate(wanted):
        scale = size / x.shape[axis] if sizes is not None else float(scales[axis])
        if scale != 1.0:
            x = _along(a, x, axis, size, scale, weight)
    return x


def _along(a, x: Tensor, axis: int, size: int, scale: float, weight) -> Tensor:
    at = positions(a.get("coordinate_transformation_mode", "half_pixel"), size, scale)
    last = x.shape[axis] - 1
    if a.get("mode", "nearest") == "nearest":
        rounded = {
            "floor": torch.floor,
            "ceil": torch.ceil,
            "round_prefer_floor": lambda t: torch.ceil(t - 0.5),
            "round_prefer_ceil": lambda t: torch.floor(t + 0.5),
        }[a.get("nearest_mode", "round_prefer_floor")]
        return x.index_select(axis, rounded(at).long().clamp(0, last))
    at = at.clamp(0, last)
    below = at.floor().long()
    t = weight(at - below).reshape([-1 if i == axis else 1 for i in range(x.dim())])
    v = x.float() if x.dtype is torch.float16 else x
    lower = v.index_select(axis, below)
    upper = v.index_select(axis, (below + 1).clamp(max=last))
    t = t.to(v.dtype)
    return (lower * (1 - t) + upper * t).to(x.dtype)


def resizes(attributes) -> bool:
    """Whether `resize` knows what the attributes ask for."""
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    return mode in ("asymmetric", "half_pixel") and "axes" not in attributes


def positions(mode: str, size: int, scale: float) -> Tensor:
    """Source coordinates of an axis, in float64."""
    i = torch.arange(size, dtype=torch.float64)
    return i / scale if mode == "asymmetric" else (i + 0.5) / scale - 0.5
