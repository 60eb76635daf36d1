"""Elements at other places: blocks of images, the middle of a tensor."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.families.axes import AXES, positive
from nnfuzz.spec.families.shape import Moving
from nnfuzz.spec.operator import In, operator

BLOCKS = Choice((2, 2, 3, 4, 1))


@operator
class DepthToSpace(Moving):
    """(N, b * b * C, H, W) -> (N, C, b * H, b * W). Source: ONNX DepthToSpace-13."""

    inputs = (In("T", ALL, (4, 4)),)
    blocksize = BLOCKS
    mode = Choice(("DCR", "CRD"))

    def requires(self, x):
        yield x.shape[1] % self.blocksize**2 == 0

    def type_transfer(self, x):
        (n, c, h, w), b = x.shape, self.blocksize
        return [x.with_shape((n, c // b**2, h * b, w * b))]

    def infer_input_types(self, draw, first, dtypes, output):
        n, c = output.shape[:2]
        return [TensorType(dtypes[0], (n, c * self.blocksize**2, *first.shape[2:]))]

    def torch(self, x):
        (n, c, h, w), b = x.shape, self.blocksize
        if self.mode == "DCR":
            x = x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2)
        else:
            x = x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3)
        return x.reshape(n, c // b**2, h * b, w * b)


@operator
class SpaceToDepth(Moving):
    """(N, C, b * H, b * W) -> (N, b * b * C, H, W). Source: ONNX SpaceToDepth-13."""

    inputs = (In("T", ALL, (4, 4)),)
    blocksize = BLOCKS

    def requires(self, x):
        yield x.shape[2] % self.blocksize == 0
        yield x.shape[3] % self.blocksize == 0

    def type_transfer(self, x):
        (n, c, h, w), b = x.shape, self.blocksize
        return [x.with_shape((n, c * b**2, h // b, w // b))]

    def infer_input_types(self, draw, first, dtypes, output):
        (n, _, h, w), b = output.shape, self.blocksize
        return [TensorType(dtypes[0], (n, first.shape[1], h * b, w * b))]

    def torch(self, x):
        (n, c, h, w), b = x.shape, self.blocksize
        x = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
        return x.reshape(n, c * b**2, h // b, w // b)


@operator
class CenterCropPad(Moving):
    """The middle of each axis; zeros around where the target is larger.

    Source: ONNX CenterCropPad-18.
    """

    since = 18
    inputs = (In("T", ALL, (1, 5)),)
    axes = AXES
    shape = Choice(by=lambda draw, op, first, *_: tuple(draw.dim(first.rank) for _ in op.axes))

    def requires(self, x):
        yield all(-x.rank <= a < x.rank for a in self.axes)
        yield len(set(positive(self.axes, x.rank))) == len(self.axes) == len(self.shape)

    def type_transfer(self, x):
        target = dict(zip(positive(self.axes, x.rank), self.shape))
        return [x.with_shape([target.get(i, d) for i, d in enumerate(x.shape)])]

    def infer_input_types(self, draw, first, dtypes, output):
        axes = positive(self.axes, first.rank)
        shape = tuple(
            f if i in axes else o for i, (f, o) in enumerate(zip(first.shape, output.shape))
        )
        return [TensorType(dtypes[0], shape)]

    def certain(self, x):
        """Zeros, where an axis may grow."""
        grows = [t > x.shape[a] for t, a in zip(self.shape, self.axes)]
        return () if all(g is False for g in grows) else ((0, 0),)

    def value_range(self, x):
        return min(x[0], 0), max(x[1], 0)

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
        shape = emit.const(list(self.shape), DType.INT64)
        return emit("CenterCropPad", x, shape, axes=list(self.axes))
