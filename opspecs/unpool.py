"""Maximum pooling with positions, and its inverse."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.reduce import winners
from nnfuzz.operators.families.shape import Zeros, sizes
from nnfuzz.operators.families.window import NO_AUTO_PAD
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import operator
from nnfuzz.operators.unexportable import DECOMPOSED

from .pool import MaxPool, Pool


class Located(Pool):
    """Base of pools with the position of each window's largest element, the first one in row-major
    order.

    ONNX does not define which one of several; all known implementations take the first.
    """

    unexportable = DECOMPOSED
    storage_order = 0

    def located(self, x):
        """The elements of every window, -inf beyond the tensor, and their positions or -1.

        Both have the shape (N, C, *windows, elements of a window).
        """
        count, channels, *spatial = sizes(x)
        order = tuple(reversed(range(len(spatial)))) if self.storage_order else None
        plane = torch.arange(math.prod(spatial))
        plane = plane.reshape(spatial[::-1]).permute(order) if order else plane.reshape(spatial)
        planes = torch.arange(count * channels) * math.prod(spatial)
        positions = plane + planes.reshape(count, channels, *(1,) * len(spatial))
        values = x if x.is_floating_point() else x.float()
        return self.windows(values, -torch.inf), self.windows(positions, -1)

    def pooled(self, x):
        """The largest element of each window, and its position."""
        elements, positions = self.located(x)
        best = elements.argmax(-1, keepdim=True)
        values = elements.gather(-1, best).squeeze(-1).to(x.dtype)
        return values, positions.gather(-1, best).squeeze(-1)

    def margins(self, x):
        elements = self.windows(x, -torch.inf) if x.is_floating_point() else None
        if elements is None or elements.shape[-1] < 2:
            return []
        top = elements.topk(2, -1).values
        return [top[..., 0] - top[..., 1]]


@operator
class MaxPoolIndices(Located, MaxPool):
    """MaxPool with its second output: positions in the flattened input, which `storage_order` = 1
    counts with the first spatial axis fastest. Source: ONNX MaxPool-12."""

    storage_order = Choice((0, 0, 1))

    def type_transfer(self, x):
        (y,) = super().type_transfer(x)
        return [y, TensorType(DType.INT64, y.shape)]

    def further(self, x):
        return (((0, DType.INT64.limits[1]), (0, 0)),)

    def torch(self, x):
        return self.pooled(x)

    def onnx(self, emit, x):
        return emit("MaxPool", x, outputs=2, **self.onnx_attributes())

    def interval(self, x):
        """Positions lie between those of the first and the last element that may be largest."""
        (least, positions), (most, _) = self.located(x.lo), self.located(x.hi)
        may = (most >= least.amax(-1, keepdim=True)) & (positions >= 0)
        first = positions.masked_fill(~may, math.prod(x.lo.shape)).amin(-1)
        last = positions.masked_fill(~may, -1).amax(-1)
        single = winners(least, most, -1)
        sure = positions.gather(-1, single[0])[..., 0], (single[0] == single[1])[..., 0]
        first, last = (torch.where(sure[1], sure[0], end) for end in (first, last))
        mask = None if x.any is None else self.windows(x.any, False).any(-1)
        ends = least.amax(-1).to(x.lo.dtype), most.amax(-1).to(x.lo.dtype)
        return [Interval(*ends, mask), Interval(first, last, mask)]


@operator
class MaxUnpool(Zeros, Located):
    """MaxPool and MaxUnpool: every element but the maxima of windows becomes 0.

    A composition, since only positions of a pooling are valid. The windows fill the padded input,
    so that the shape is restored: implementations read a differing `output_shape` in two ways.
    Source: ONNX MaxUnpool-11.
    """

    copies = True
    auto_pad = NO_AUTO_PAD
    ceil_mode = Choice((0,))
    shaped = Choice((0, 1))

    def requires(self, x):
        yield from super().requires(x)
        for size, window, stride, _, before, behind in self.axes(x):
            yield (size + before + behind - window) % stride == 0

    def type_transfer(self, x):
        return [x]

    def infer_input_types(self, draw, first, dtypes, output):
        return [TensorType(dtypes[0], output.shape)]

    def cost(self, x):
        return (
            math.prod(self.window_counts(x)) * math.prod(self.kernel_shape) * math.prod(x.shape[:2])
        )

    def value_range(self, x):
        return min(x[0], 0.0), max(x[1], 0.0)

    def torch(self, x):
        values, positions = self.pooled(x)
        flat = torch.zeros_like(x).reshape(-1)
        return flat.scatter(0, positions.reshape(-1), values.reshape(-1)).reshape(x.shape)

    def onnx(self, emit, x):
        shape = emit.type(x).shape
        window = {name: getattr(self, name) for name in ("kernel_shape", "strides", "pads")}
        values, positions = emit("MaxPool", x, outputs=2, **window)
        sizes = (emit.const(list(shape), DType.INT64),) if self.shaped else ()
        return emit("MaxUnpool", values, positions, *sizes, **window)

    def interval(self, x):
        """The element where it is surely a maximum, 0 where it surely is none, else the hull of
        both."""
        (least, positions), (most, _) = self.located(x.lo), self.located(x.hi)
        may = (most >= least.amax(-1, keepdim=True)) & (positions >= 0)
        first, last = winners(least, most, -1)
        possible = self._marked(x.lo, positions[may])
        certain = self._marked(x.lo, positions.gather(-1, first)[first == last])
        lo = torch.where(certain, x.lo, torch.where(possible, x.lo.clamp(max=0), 0.0))
        hi = torch.where(certain, x.hi, torch.where(possible, x.hi.clamp(min=0), 0.0))
        mask = None
        if x.any is not None:
            doubtful = self.windows(x.any, False).any(-1, keepdim=True).expand_as(positions)
            mask = self._marked(x.lo, positions[doubtful & (positions >= 0)])
        return [Interval(lo, hi, mask)]

    def _marked(self, like, positions):
        """A mask that is True at flat positions."""
        mask = torch.zeros(like.numel(), dtype=torch.bool)
        mask[positions.reshape(-1)] = True
        return mask.reshape(like.shape)
