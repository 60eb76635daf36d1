"""Convolution and pooling: windows over (N, C, *S) with padding, strides and dilations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def framed(x: Tensor, pads: Sequence[int], fill: float) -> Tensor:
    """x with ONNX pads (all begins, then all ends) on its spatial axes."""
    n = x.dim() - 2
    pairs = [p for i in reversed(range(n)) for p in (pads[i], pads[n + i])]
    return F.pad(x, pairs, value=fill)


def settings(a, x: Tensor, kernel: Sequence[int]):
    """Strides, dilations and pads, with ends long enough for ceil_mode."""
    n = x.dim() - 2
    strides = a.get("strides") or [1] * n
    dilations = a.get("dilations") or [1] * n
    pads = list(a.get("pads") or [0] * 2 * n)
    overhang = [0] * n
    auto = a.get("auto_pad", "NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    if auto.startswith("SAME"):
        for i in range(n):
            size, reach = x.shape[2 + i], (kernel[i] - 1) * dilations[i] + 1
            total = max((-(-size // strides[i]) - 1) * strides[i] + reach - size, 0)
            ends = total // 2, total - total // 2
            pads[i], pads[n + i] = ends if auto == "SAME_UPPER" else ends[::-1]
    elif a.get("ceil_mode", 0):
        for i in range(n):
            free = x.shape[2 + i] + pads[i] + pads[n + i] - (kernel[i] - 1) * dilations[i] - 1
            overhang[i] = -free % strides[i]
    return strides, dilations, pads, overhang


def windows(x: Tensor, kernel, strides, dilations) -> Tensor:
    """(N, C, *S) -> (N, C, *S', K), K elements per window."""
    n = len(kernel)
    for i in range(n):
        x = x.unfold(2 + i, (kernel[i] - 1) * dilations[i] + 1, strides[i])
        x = x[..., :: dilations[i]]
    return x.flatten(-n)


def max_pool(a, x, fill=None):
    kernel = a["kernel_shape"]
    strides, dilations, pads, overhang = settings(a, x, kernel)
    n = len(kernel)
    ends = [p + o for p, o in zip(pads[n:], overhang)]
    least = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    x = framed(x, [*pads[:n], *ends], least if fill is None else fill)
    return windows(x, kernel, strides, dilations).amax(-1)


def average_pool(a, x, total=lambda w: w.sum(-1)):
    kernel = a["kernel_shape"]
    strides, dilations, pads, overhang = settings(a, x, kernel)
    n = len(kernel)
    inside = torch.ones_like(x[:1, :1])
    if a.get("count_include_pad", 0):
        inside, pads_of_ones = framed(inside, pads, 1.0), [0] * 2 * n
    else:
        pads_of_ones = pads
    count = framed(inside, _longer(pads_of_ones, overhang), 0.0)
    y = framed(x, _longer(pads, overhang), 0.0)
    v = y.float() if y.dtype is torch.float16 else y
    sums = total(windows(v, kernel, strides, dilations))
    return (sums / windows(count, kernel, strides, dilations).sum(-1).to(v.dtype)).to(x.dtype)


def _longer(pads, overhang):
    n = len(overhang)
    return [*pads[:n], *(p + o for p, o in zip(pads[n:], overhang))]


def conv(a, x, w, b=None):
    n = x.dim() - 2
    strides, dilations, pads, _ = settings(a, x, w.shape[2:])
    f = (torch.conv1d, torch.conv2d, torch.conv3d)[n - 1]
    return f(framed(x, pads, 0.0), w, b, strides, 0, dilations, a.get("group", 1))
