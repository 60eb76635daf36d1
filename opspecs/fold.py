"""Images from columns of blocks."""

from __future__ import annotations

import math

from torch.nn import functional

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.shape import Zeros
from nnfuzz.operators.families.sums import Summing, summed
from nnfuzz.operators.intervals import linear
from nnfuzz.operators.operator import In, operator


def _each(options):
    """Draws one of the options for each spatial axis."""
    return Choice(by=lambda draw, op, *_: tuple(draw.choice(options) for _ in op.kernel))


def _rows(draw, op):
    """Draws sizes of all axes but the last, each with room for one to four blocks."""
    for k, s, d, b, e in list(zip(op.kernel, op.strides, op.dilations, op.begins, op.ends))[:-1]:
        yield max(1, draw.integer(0, 3) * s + d * (k - 1) + 1 - b - e)


@operator
class Col2Im(Zeros, Summing):
    """(N, C * kernel, blocks) -> (N, C, *image): overlapping blocks add up.

    Only the last size of the image is up to the solver, so that the number of blocks is linear.
    Source: ONNX Col2Im-18; torch.nn.functional.fold.
    """

    adding = unscaled = True
    since = 18
    inputs = (In("T", FLOATS, (3, 3)),)
    kernel = Choice(
        by=lambda draw, *_: tuple(draw.choice((1, 2, 3)) for _ in range(draw.choice((1, 2, 2))))
    )
    strides = _each((1, 1, 2, 3))
    dilations = _each((1, 1, 2))
    begins = _each((0, 0, 1, 2))
    ends = _each((0, 0, 1, 2))
    image = Choice(by=lambda draw, op, *_: (*_rows(draw, op), draw.dim(len(op.kernel) + 2)))

    def _padded(self):
        return [i + b + e for i, b, e in zip(self.image, self.begins, self.ends)]

    def _blocks(self):
        """How many blocks there are along each axis."""
        for size, k, s, d in zip(self._padded(), self.kernel, self.strides, self.dilations):
            yield (size - d * (k - 1) - 1) // s + 1

    def requires(self, x):
        yield x.shape[1] % math.prod(self.kernel) == 0
        for size, k, d in zip(self._padded(), self.kernel, self.dilations):
            yield size >= d * (k - 1) + 1
        yield product(self._blocks()) == x.shape[2]

    def type_transfer(self, x):
        n, c, _ = x.shape
        return [x.with_shape((n, c // math.prod(self.kernel), *self.image))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return 3 if output_rank in (3, 4) else None

    @classmethod
    def draw_backward(cls, draw, first, output):
        """Draws until there are as many spatial axes as the output has, with a few attempts."""
        for _ in range(8):
            op = cls.draw(draw, first)
            if len(op.kernel) + 2 == output.rank:
                break
        return op

    def infer_input_types(self, draw, first, dtypes, output):
        n, c, *_ = output.shape
        shape = (n, c * math.prod(self.kernel), product(self._blocks()))
        return [TensorType(dtypes[0], shape)]

    def terms(self, x):
        return math.prod(self.kernel)

    def value_range(self, x):
        return summed((0.0, 1.0), x)

    def interval(self, x):
        return [linear(self.torch, x)]

    def torch(self, x):
        """PyTorch folds two axes, so an image of one axis becomes a single row."""
        row = (1,) * (2 - len(self.kernel))
        size, kernel = (*row, *self._padded()), (*row, *self.kernel)
        dilation, stride = (*row, *self.dilations), (*row, *self.strides)
        y = functional.fold(x, size, kernel, dilation, 0, stride)
        y = y.squeeze(2) if row else y
        for axis, (begin, size) in enumerate(zip(self.begins, self.image), 2):
            y = y.narrow(axis, begin, size)
        return y

    def onnx(self, emit, x):
        image, kernel = (emit.const(list(v), DType.INT64) for v in (self.image, self.kernel))
        pads = [*self.begins, *self.ends]
        return emit(
            "Col2Im", x, image, kernel, strides=self.strides, dilations=self.dilations, pads=pads
        )
