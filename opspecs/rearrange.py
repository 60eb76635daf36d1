"""Rearrangement of elements: blocks of images, the middle of a tensor."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import ALL
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.operand import Operands
from nnfuzz.operators.families.shape import AXES, DataMovement, ZeroFilled, positive
from nnfuzz.operators.operator import In, operator


class Blocks(DataMovement):
    """Base of operators that turn blocks of an image into channels, or channels into blocks."""

    inputs = (In("T", ALL, (4, 4)),)
    blocksize = Choice((2, 2, 3, 4, 1))

    def scaling(self):
        """The factors and the divisors of the sizes, per axis."""
        raise NotImplementedError

    def rearranged(self, x):
        """The elements in the order of the result, in any shape."""
        raise NotImplementedError

    def requires(self, x):
        for size, divisor in zip(x.shape, self.scaling()[1]):
            yield size % divisor == 0

    def type_transfer(self, x):
        return [x.with_shape(self._scaled(x.shape))]

    def infer_input_types(self, draw, first, dtypes, output):
        """Sizes that are multiplied stay open, because their quotients need not be whole."""
        sizes = zip(first.shape, output.shape, *self.scaling())
        shape = tuple(have if up > 1 else want * down for have, want, up, down in sizes)
        return [TensorType(dtypes[0], shape)]

    def torch(self, x):
        return self.rearranged(x).reshape(self._scaled(x.shape))

    def _scaled(self, sizes):
        return [size * up // down for size, up, down in zip(sizes, *self.scaling())]


@operator
class DepthToSpace(Blocks):
    """(N, b * b * C, H, W) -> (N, C, b * H, b * W). Source: ONNX DepthToSpace-13."""

    merges = ("SpaceToDepth",)
    mode = Choice(("DCR", "CRD"))

    def scaling(self):
        return (1, 1, self.blocksize, self.blocksize), (1, self.blocksize**2, 1, 1)

    def rearranged(self, x):
        (n, c, h, w), b = x.shape, self.blocksize
        if self.mode == "DCR":
            return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3)


@operator
class SpaceToDepth(Blocks):
    """(N, C, b * H, b * W) -> (N, b * b * C, H, W). Source: ONNX SpaceToDepth-13."""

    merges = ("DepthToSpace",)

    def scaling(self):
        return (1, self.blocksize**2, 1, 1), (1, 1, self.blocksize, self.blocksize)

    def rearranged(self, x):
        (n, c, h, w), b = x.shape, self.blocksize
        return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)


@operator
class CenterCropPad(ZeroFilled, Operands, DataMovement):
    """The middle of each axis, surrounded by zeros where the target is larger.

    Source: ONNX CenterCropPad-18.
    """

    since = 18
    inputs = (In("T", ALL, (1, 5)),)
    axes = AXES
    shape = Choice(by=lambda draw, op, first, *_: tuple(draw.dim(first.rank) for _ in op.axes))

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        axes = fields.get("axes") or tuple(range(takes[0].rank))
        return cls(axes=axes, shape=fields["shape"])

    def requires(self, x):
        yield all(-x.rank <= a < x.rank for a in self.axes)
        yield len(set(positive(self.axes, x.rank))) == len(self.axes) == len(self.shape)

    def type_transfer(self, x):
        target = dict(zip(positive(self.axes, x.rank), self.shape))
        return [x.with_shape([target.get(i, d) for i, d in enumerate(x.shape)])]

    def certain(self, x):
        """0 occurs where an axis may grow."""
        grows = [t > x.shape[a] for t, a in zip(self.shape, self.axes)]
        return () if all(g is False for g in grows) else ((0, 0),)

    def torch(self, x):
        for axis, size in zip(self.axes, self.shape):
            have = x.shape[axis]
            if have >= size:
                x = x.narrow(axis, (have - size) // 2, size)
                continue
            before = list(x.shape)
            after = list(x.shape)
            before[axis], after[axis] = (size - have) // 2, (size - have + 1) // 2
            x = torch.cat([x.new_zeros(before), x, x.new_zeros(after)], axis)
        return x

    def onnx(self, emit, x):
        return emit("CenterCropPad", x, self.integers(emit, x, self.shape), axes=self.axes)
