"""Convolution: shapes and values for any element type and any order of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import FLOATS
from nnfuzz.ir.expr import Bool, Int, product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.sums import Summing
from nnfuzz.operators.families.window import (
    AUTO_PAD,
    LARGEST_KERNEL,
    Window,
    group,
    paddings,
    per_axis,
)
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import In


class Kernels(Window):
    """Windows whose sizes are those of a second input."""

    group = Choice(by=group)
    strides = per_axis(1, 1, 2, 3)
    dilations = per_axis(1, 1, 1, 2, 3)
    auto_pad = AUTO_PAD
    pads = paddings(4)

    def window_shape(self, x: TensorType, w: TensorType, *_: TensorType) -> tuple[Int, ...]:
        return w.shape[2:]


class WeightedSum(Summing):
    """Images, kernels and maybe a bias per channel of the result, in floats."""

    inputs = (
        In("T", FLOATS, (3, 5)),
        In("T", ranks=(3, 5), weight=True),
        In("T", ranks=(1, 1), weight=True),
    )
    variadic = (2, 3)
    unscaled = True

    def onnx(self, emit: Any, *values: str) -> str:
        kernel = emit.type(values[1]).shape[2:]
        return emit(self.name, *values, kernel_shape=kernel, **self.onnx_attributes())

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return [linear(self.torch, *intervals, weights=(0, 1))]


class Convolution(Kernels):
    """(N, C, *S) * (M, C / group, *K) -> (N, M, *S')."""

    def convolves(self, x: TensorType, w: TensorType) -> Iterator[Bool]:
        """The kernels fit the channels and the padded image."""
        yield x.rank == w.rank
        yield x.shape[1] == w.shape[1] * self.group
        yield w.shape[0] % self.group == 0
        yield from self.window_fits(x, w)

    def convolved_shape(self, x: TensorType, w: TensorType) -> tuple[Int, ...]:
        return (x.shape[0], w.shape[0], *self.window_counts(x, w))

    def kernel_shape(
        self, draw: Draw, x: TensorType, channels: Int | None = None
    ) -> tuple[Any, ...]:
        """A shape of kernels for an input; `channels`: of the result, any where None."""
        if channels is None:
            divisible = draw.chance(0.3)
            channels = draw.var("m", 1, 8) * self.group if divisible else draw.dim(x.rank)
        depthwise = self.group > 1 and draw.chance(0.5)
        inner = 1 if depthwise else x.shape[1] if self.group == 1 else draw.var("c", 1, 8)
        most = LARGEST_KERNEL[x.rank - 3]
        return (channels, inner, *(draw.var("k", 1, most) for _ in x.shape[2:]))

    def partly_outside(self, x: TensorType, w: TensorType) -> bool:
        """Whether a whole window may lie in the padding."""
        for _, window, _, dilation, *pads in self.axes(x, w):
            reach = (window - 1) * dilation + 1
            if any((p < reach) is not True for p in pads):
                return True
        return False

    def cost(self, *inputs: TensorType) -> int:
        x, w = self.convolvees(*inputs)
        return 2 * product((*self.convolved_shape(x, w), *w.shape[1:]))  # type: ignore[return-value]

    def convolvees(self, *inputs: Any) -> Sequence[Any]:
        """Image and kernels among the inputs."""
        return inputs[:2]

    def convolve(self, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
        """The convolution of floats, padded with 0."""
        n = x.dim() - 2
        conv = (torch.conv1d, torch.conv2d, torch.conv3d)[n - 1]
        padding: Sequence[int] = self.pads[:n] if self.symmetric() else (0,) * n
        x = x if self.symmetric() else self.padded(x, 0.0)
        return conv(x, w, bias, self.strides, padding, self.dilations, self.group)
