"""Convolutions and transposed convolutions over one to three spatial axes."""

from __future__ import annotations

import torch

from nnfuzz.ir.expr import product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.shape import sizes
from nnfuzz.operators.families.window import (
    EXPLICIT,
    LARGEST_KERNEL,
    Convolution,
    Kernels,
    WeightedSum,
)
from nnfuzz.operators.operator import operator


@operator
class Conv(WeightedSum, Convolution):
    """(N, C, *S) * (M, C / group, *K) + (M,) -> (N, M, *S'); the bias is optional.

    Source: ONNX Conv-11; torch.nn.functional.conv2d.
    """

    def requires(self, x, w, *bias):
        yield from self.convolves(x, w)
        for b in bias:
            yield b.shape[0] == w.shape[0]

    def type_transfer(self, x, w, *_):
        return [x.with_shape(self.convolved_shape(x, w))]

    def complete(self, draw, first, dtypes):
        return self._typed(first, self.kernel_shape(draw, first), dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (output.shape[0], *first.shape[1:]))
        return self._typed(x, self.kernel_shape(draw, x, output.shape[1]), dtypes)

    def _typed(self, x, kernels, dtypes):
        return [TensorType(d, s) for d, s in zip(dtypes, (x.shape, kernels, kernels[:1]))]

    def certain(self, x, w, *bias):
        """0 occurs where a window lies in the padding."""
        return ((0, 0),) if not bias and self.partly_outside(x, w) else ()

    def torch(self, x, w, bias=None):
        return self.convolve(x, w, bias)

    def terms(self, x, w, *bias):
        return product(w.shape[1:]) + len(bias)


def _behind(draw, op, first, *_):
    """Draws output padding: rows at the end that no window touches, fewer than the stride.

    ONNX demands less than "stride/dilation"; PyTorch reads that as "or", ONNX Runtime requires less
    than the stride. 0 with `auto_pad`, where the standard's formula and its shape inference
    disagree.
    """
    if op.auto_pad != EXPLICIT or draw.chance(0.5):
        return (0,) * (first.rank - 2)
    return tuple(draw.integer(0, stride - 1) for stride in op.strides)


SHAPED = {EXPLICIT: (0, 0, 0, 1), "SAME_UPPER": (0, 1), "SAME_LOWER": (0,), "VALID": (0,)}
"""With explicit output sizes, `auto_pad` decides only on which side an odd padding is larger."""


@operator
class ConvTranspose(WeightedSum, Kernels):
    """(N, C, *S), (C, M / group, *K), (M,) -> (N, M, *S'); the bias is optional.

    S' = stride * (S - 1) + output_padding + dilation * (K - 1) + 1 - pads.
    Source: ONNX ConvTranspose-11; torch.nn.functional.conv_transpose2d.
    """

    output_padding = Choice(by=_behind)

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        padding = fields.get("output_padding", (0,) * (takes[0].rank - 2))
        return super().from_onnx({**fields, "output_padding": padding}, takes, gives)

    shaped = Choice(lambda op, *_: SHAPED[op.auto_pad], default=0)
    """Whether the model gives the output sizes, from which the padding follows."""

    def requires(self, x, w, *bias):
        yield x.rank == w.rank and len(self.output_padding) == x.rank - 2
        yield x.shape[1] == w.shape[0]
        yield x.shape[1] % self.group == 0
        for extra, stride in zip(self.output_padding, self.strides):
            yield 0 <= extra < stride
            yield self.auto_pad == EXPLICIT or extra == 0
        for b in bias:
            yield b.shape[0] == w.shape[1] * self.group
        yield from self.padded_as_declared(x, w)
        if self.shaped:
            upper = self.auto_pad == "SAME_UPPER"
            for *_, before, behind in self.axes(x, w):
                more, less = (behind, before) if upper else (before, behind)
                yield more - less >= 0
                yield more - less <= 1
            # ONNX's shape inference takes nothing smaller for a shape (onnx 1.23).
            for size, given in zip(self._sizes(x, w), x.shape[2:]):
                yield size >= given
        for size in self._sizes(x, w):
            yield size >= 1

    def automatic(self, *inputs):
        """None where the model gives the output sizes, from which the padding follows."""
        return iter(()) if self.shaped else super().automatic(*inputs)

    def missing(self, *inputs):
        """Padding that is missing for an output of one stride per input element."""
        for parts, extra in zip(self.axes(*inputs), self.output_padding):
            _, window, stride, dilation, _, _ = parts
            yield (window - 1) * dilation + 1 + extra - stride

    def onnx(self, emit, *values):
        said = {**self.onnx_attributes(), "shaped": None}
        if self.shaped:
            (made,) = self.type_transfer(*map(emit.type, values))
            told = None if self.auto_pad == EXPLICIT else self.auto_pad
            said |= {"pads": None, "auto_pad": told, "output_shape": made.shape[2:]}
        return emit(self.name, *values, kernel_shape=emit.type(values[1]).shape[2:], **said)

    def _sizes(self, x, w):
        for parts, extra in zip(self.axes(x, w), self.output_padding):
            size, window, stride, dilation, before, behind = parts
            yield (size - 1) * stride + extra + (window - 1) * dilation + 1 - before - behind

    def type_transfer(self, x, w, *_):
        return [x.with_shape((x.shape[0], w.shape[1] * self.group, *self._sizes(x, w)))]

    def complete(self, draw, first, dtypes):
        return self._typed(draw, first, draw.var("m", 1, 8), dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (output.shape[0], *first.shape[1:]))
        return self._typed(draw, x, output.shape[1] // self.group, dtypes)

    def _typed(self, draw, x, inner, dtypes):
        kernel = [draw.var("k", 1, LARGEST_KERNEL[x.rank - 3]) for _ in x.shape[2:]]
        shapes = (x.shape, (x.shape[1], inner, *kernel), (inner * self.group,))
        return [TensorType(d, s) for d, s in zip(dtypes, shapes)]

    def certain(self, x, w, *bias):
        """0 occurs where no window reaches."""
        gaps = any(s > 1 for s in (*self.strides, *self.dilations))
        return ((0, 0),) if gaps and not bias else ()

    def cost(self, x, w, *_):
        return 2 * x.numel * product(w.shape[1:])

    def torch(self, x, w, bias=None):
        n = x.dim() - 2
        conv = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[n - 1]
        padding = self.pads[:n] if self.symmetric() else (0,) * n
        extra, dilations = self.output_padding, self.dilations
        y = conv(x, w, bias, self.strides, padding, extra, self.group, dilations)
        return y if self.symmetric() else self._cropped(y)

    def _cropped(self, y):
        n, shape = y.dim() - 2, sizes(y)
        inner = (slice(a, shape[2 + i] - self.pads[n + i]) for i, a in enumerate(self.pads[:n]))
        return y[(slice(None), slice(None), *inner)]

    def terms(self, x, w, *bias):
        return product(w.shape[2:]) * (x.shape[1] // self.group) + len(bias)
