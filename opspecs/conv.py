"""Convolutions over one to three spatial axes."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import FLOATS
from nnfuzz.ir.expr import product
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.families.sums import Summing
from nnfuzz.spec.families.window import Window, paddings, per_axis
from nnfuzz.spec.intervals import linear
from nnfuzz.spec.operator import In, operator

LARGEST_KERNEL = (9, 7, 4)
"""Per number of spatial axes."""


def _group(draw, op, first, *_):
    """A number of groups that can divide the channels."""
    channels = first.shape[1]
    if draw.chance(0.5):
        return 1
    if isinstance(channels, int):
        return draw.choice([g for g in range(1, channels + 1) if channels % g == 0])
    return draw.choice((2, 2, 3, 4, 5, 6, 8))


@operator
class Conv(Summing, Window):
    """(N, C, *S) * (M, C / group, *K) + (M,) -> (N, M, *S'); the bias is optional.

    Source: ONNX Conv-11; torch.nn.functional.conv2d.
    """

    inputs = (
        In("T", FLOATS, (3, 5)),
        In("T", ranks=(3, 5), weight=True),
        In("T", ranks=(1, 1), weight=True),
    )
    variadic = (2, 3)
    group = Choice(by=_group)
    strides = per_axis(1, 1, 2, 3)
    dilations = per_axis(1, 1, 1, 2, 3)
    pads = paddings(4)

    def window_shape(self, x, w, *_):
        return w.shape[2:]

    def requires(self, x, w, *bias):
        yield x.rank == w.rank and len(self.pads) == 2 * len(self.strides) == 2 * (x.rank - 2)
        yield x.shape[1] == w.shape[1] * self.group
        yield w.shape[0] % self.group == 0
        yield from self.window_fits(x, w)
        for b in bias:
            yield b.shape[0] == w.shape[0]

    def type_transfer(self, x, w, *_):
        return [x.with_shape((x.shape[0], w.shape[0], *self.window_counts(x, w)))]

    def complete(self, draw, first, dtypes):
        channels = self._per_group(draw) * self.group if draw.chance(0.3) else draw.dim(first.rank)
        return self._typed(draw, first, channels, dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (output.shape[0], *first.shape[1:]))
        return self._typed(draw, x, output.shape[1], dtypes)

    def _per_group(self, draw):
        return draw.var("m", 1, 8)

    def _typed(self, draw, x, channels, dtypes):
        depthwise = self.group > 1 and draw.chance(0.5)
        inner = 1 if depthwise else x.shape[1] if self.group == 1 else draw.var("c", 1, 8)
        most = LARGEST_KERNEL[x.rank - 3]
        kernel = [draw.var("k", 1, most) for _ in x.shape[2:]]
        shapes = (x.shape, (channels, inner, *kernel), (channels,))
        return [TensorType(d, s) for d, s in zip(dtypes, shapes)]

    def certain(self, x, w, *bias):
        """0 where a window lies in the padding."""
        for _, window, _, dilation, *pads in self.axes(x, w):
            reach = (window - 1) * dilation + 1
            if not bias and any((p < reach) is not True for p in pads):
                return ((0, 0),)
        return ()

    def cost(self, x, w, *_):
        return 2 * self.type_transfer(x, w)[0].numel * product(w.shape[1:])

    def torch(self, x, w, bias=None):
        n = x.dim() - 2
        conv = (torch.conv1d, torch.conv2d, torch.conv3d)[n - 1]
        padding = self.pads[:n] if self.symmetric() else (0,) * n
        x = x if self.symmetric() else self.padded(x, 0.0)
        return conv(x, w, bias, self.strides, padding, self.dilations, self.group)

    def onnx(self, emit, x, w, *bias):
        kernel = emit.type(w).shape[2:]
        return emit("Conv", x, w, *bias, kernel_shape=kernel, **self.attributes)

    def interval(self, *boxes):
        return [linear(self.torch, *boxes, weights=(0, 1))]

    def terms(self, x, w, *bias):
        return product(w.shape[1:]) + len(bias)
