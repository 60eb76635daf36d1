"""Convolutions over one to three spatial axes: plain, transposed, and at displaced positions."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import FLOATS
from nnfuzz.ir.expr import product
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.families.shape import sizes
from nnfuzz.operators.families.sums import Summing, largest
from nnfuzz.operators.families.window import (
    EXPLICIT,
    LARGEST_KERNEL,
    Convolution,
    Kernels,
    WeightedSum,
    Window,
    group,
    paddings,
    per_axis,
)
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.rounding import sum_radius
from nnfuzz.operators.unexportable import DECOMPOSED


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
        return tensor_types(dtypes, x.shape, kernels, kernels[:1])

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
        return tensor_types(dtypes, x.shape, (x.shape[1], inner, *kernel), (inner * self.group,))

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


@operator
class DeformConv(Summing, Window):
    """x (N, C, H, W), w (M, C / group, *K), offset (N, 2 G K, H', W'), bias (M,), and a mask
    (N, G K, H', W') -> (N, M, H', W').

    Elements are interpolated linearly, with 0 beyond the image. The mask, or mask and bias, may be
    absent. Source: ONNX DeformConv-19; Dai et al., Zhu et al.
    """

    since = 19
    unexportable = DECOMPOSED
    inputs = (
        In("T", FLOATS, (4, 4)),
        In("T", ranks=(4, 4), weight=True),
        In("T", ranks=(4, 4)),
        In("T", ranks=(1, 1), weight=True),
        In("T", ranks=(4, 4)),
    )
    variadic = (3, 5)
    exactness = ""
    group = Choice(by=group)
    offset_group = Choice((1, 1, 1, 2, 3))
    kernel_shape = Sym(1, 4, lambda op, *_: 2)
    strides = per_axis(1, 1, 2)
    dilations = per_axis(1, 1, 2)
    pads = paddings(3)

    def window_shape(self, *inputs):
        return self.kernel_shape

    def requires(self, x, w, offset, *rest):
        yield x.shape[1] == w.shape[1] * self.group
        yield w.shape[0] % self.group == 0
        yield x.shape[1] % self.offset_group == 0
        yield len(self.kernel_shape) == x.rank - 2
        yield from (a == b for a, b in zip(w.shape[2:], self.kernel_shape))
        yield from self.window_fits(x)
        for have, want in zip((offset, *rest), self._extras(x, w.shape[0])):
            yield have.rank == len(want)
            yield from (a == b for a, b in zip(have.shape, want))

    def _extras(self, x, channels):
        """The shapes of offset, bias and mask."""
        kernel, places = self.offset_group * product(self.kernel_shape), self.window_counts(x)
        batch = x.shape[0]
        return (batch, 2 * kernel, *places), (channels,), (batch, kernel, *places)

    def type_transfer(self, x, w, *_):
        return [x.with_shape((x.shape[0], w.shape[0], *self.window_counts(x)))]

    def complete(self, draw, first, dtypes):
        return self._typed(draw, first, draw.var("m", 1, 8) * self.group, dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (output.shape[0], *first.shape[1:]))
        return self._typed(draw, x, output.shape[1], dtypes)

    def _typed(self, draw, x, channels, dtypes):
        inner = x.shape[1] if self.group == 1 else draw.var("c", 1, 8)
        kernel = (channels, inner, *self.kernel_shape)
        return tensor_types(dtypes, x.shape, kernel, *self._extras(x, channels))

    def cost(self, x, w, *_):
        places = self.type_transfer(x, w)[0].numel
        return 2 * places * product(w.shape[1:]) + 16 * places * product(w.shape[1:])

    def terms(self, x, w, *_):
        return 4 * product(w.shape[1:]) + 2

    def torch(self, x, w, offset, bias=None, mask=None):
        if x.dtype not in (torch.float32, torch.float64):
            floats = [None if t is None else t.float() for t in (x, w, offset, bias, mask)]
            return self.torch(*floats).to(x.dtype)
        return self._combined(self._columns(x, offset), w, bias, mask)

    def _columns(self, x, offset):
        """The elements under every kernel element: (N, C, K, H', W')."""
        n, c, h, w = sizes(x)
        count, places = product(self.kernel_shape), sizes(offset)[2:]
        grouped = offset.reshape(n, self.offset_group, count, 2, *places)
        rows, columns = (self._base(axis, places, x) + grouped[:, :, :, axis] for axis in (0, 1))
        image = x.reshape(n * self.offset_group, c // self.offset_group, h, w)
        sampled = interpolated(image, *(p.reshape(image.shape[0], -1) for p in (rows, columns)))
        return sampled.reshape(n, c, count, *places)

    def _base(self, axis, places, x):
        """Positions along one axis without displacement: (K, H', W')."""
        steps = torch.arange(places[axis], dtype=x.dtype) * self.strides[axis] - self.pads[axis]
        taps = torch.arange(self.kernel_shape[axis], dtype=x.dtype) * self.dilations[axis]
        shape = [1, 1, 1, 1]
        shape[axis] = -1
        taps = taps.reshape(shape)
        steps = steps.reshape((1, 1, -1, 1) if axis == 0 else (1, 1, 1, -1))
        return (taps + steps).expand(*self.kernel_shape, *places).flatten(0, 1)

    def _combined(self, columns, w, bias, mask):
        n, _, count, *places = sizes(columns)
        if mask is not None:
            per_group = columns.reshape(n, self.offset_group, -1, count, *places)
            columns = per_group * mask.reshape(n, self.offset_group, 1, count, *places)
        columns = columns.reshape(n, self.group, -1, places[0] * places[1])
        kernels = w.reshape(self.group, w.shape[0] // self.group, -1)
        y = torch.matmul(kernels, columns).reshape(n, w.shape[0], *places)
        return y if bias is None else y + bias[:, None, None]

    # -- numbers ----------------------------------------------------------------------------------

    def absolute(self, x, w, offset, *rest):
        return self.torch(x.abs(), w.abs(), offset, *(t.abs() for t in rest))

    def domain(self, x, w, offset, *rest):
        """Positions must be small enough to have a fraction, and sums of four neighbours must be
        finite."""
        return [offset.abs() - 1000, self._whole(x, w, *rest) - largest(x) / 2]

    def _whole(self, x, w, bias=None, mask=None):
        """Upper bound of the sum of absolute terms for any positions."""
        most = x.abs().flatten(2).amax(-1)[..., None, None, None]
        places = mask.shape[2:] if mask is not None else (1, 1)
        columns = most.expand(-1, -1, product(self.kernel_shape), *places)
        parts = (None if t is None else t.abs() for t in (bias, mask))
        return self._combined(columns, w.abs(), *parts)

    def radius(self, u, y, x, w, offset, *rest):
        """Rounding moves the positions by a few u of the image's size."""
        reach = max(x.shape[2:]) + max(self.pads)
        shift = 8 * u * (reach + 1) * self._whole(x, w, *rest)
        return sum_radius(u, self.terms(x, w), self.absolute(x, w, offset, *rest), y) + shift

    def interval(self, x, w, offset, *rest):
        """The interval of a sum of products; a displacement by one element changes an element by at
        most twice the largest one."""
        intervals = (x, w, offset, *rest)
        centres = [b.lo if b.exact else (b.lo + b.hi) / 2 for b in intervals]
        y = self.torch(*centres)
        inner = [c if b is offset else c.abs() for b, c in zip(intervals, centres)]
        outer = [c if b is offset else c + (b.hi - b.lo) / 2 for b, c in zip(intervals, inner)]
        whole = self.torch(*outer)
        spread = (whole - self.torch(*inner)).clamp(min=0) + whole * 2.0**-50
        if not offset.exact:
            shift = (offset.hi - offset.lo).amax(1, keepdim=True)
            far = self._whole(outer[0], outer[1], *outer[3:])
            spread = spread + (2 * shift).clamp(max=2) * far
        return [Interval(y - spread, y + spread, self._masked(y, *intervals))]

    def _masked(self, y, x, w, offset, bias=None, mask=None):
        found = torch.zeros_like(y, dtype=torch.bool)
        for interval, axes in ((x, (1, 2, 3)), (w, (1, 2, 3)), (offset, (1,)), (mask, (1,))):
            if interval is not None and interval.any is not None:
                touched = interval.any.byte().amax(axes, keepdim=True).bool()
                found = found | (touched.reshape(1, -1, 1, 1) if interval is w else touched)
        if bias is not None and bias.any is not None:
            found = found | bias.any[:, None, None]
        return found if bool(found.any()) else None


def interpolated(image, rows, columns):
    """(B, C, H, W) at positions (B, P), linear in both, 0 beyond the image -> (B, C, P)."""
    (_, channels, h, w), flat = sizes(image), image.flatten(2)
    rows, columns = rows.clamp(-1, h), columns.clamp(-1, w)
    top, left = rows.floor(), columns.floor()
    total = 0
    for row, weight in ((top, top + 1 - rows), (top + 1, rows - top)):
        for column, other in ((left, left + 1 - columns), (left + 1, columns - left)):
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
            index = row.clamp(0, h - 1).long() * w + column.clamp(0, w - 1).long()
            values = flat.gather(2, index[:, None].expand(-1, channels, -1))
            total = total + values * (weight * other * inside)[:, None]
    return total
