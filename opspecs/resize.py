"""Resampling of spatial axes."""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.families.shape import Moving
from nnfuzz.spec.families.window import per_axis
from nnfuzz.spec.operator import In, operator

NEAREST = (*FLOATS, DType.INT32, DType.INT8, DType.UINT8)
LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


class Resizing(Moving):
    """(N, C, *S) -> (N, C, *S'); S' = floor(S * scale).

    The scales have exact reciprocals or are small integers, so that every implementation computes
    the same source positions. Source: ONNX Resize-13; torch.nn.functional.interpolate.
    """

    scales = per_axis(1, 2, 2, 3, 4, 0.5, 0.25)
    by_size = Choice((0, 1))

    def _factors(self):
        return [Fraction(s) for s in self.scales]

    def requires(self, x):
        yield len(self.scales) == x.rank - 2
        for size, scale in zip(x.shape[2:], self._factors()):
            # Sizes say the same as scales only if nothing is rounded off.
            yield not self.by_size or size % scale.denominator == 0
            yield size >= scale.denominator

    def type_transfer(self, x):
        sizes = zip(x.shape[2:], self._factors())
        return [x.with_shape((*x.shape[:2], *(d * s.numerator // s.denominator for d, s in sizes)))]

    def infer_input_types(self, draw, first, dtypes, output):
        return [first.with_shape((*output.shape[:2], *first.shape[2:]))]

    def _interpolate(self, x, mode, **options):
        scales = [float(s) for s in self.scales]
        return torch.nn.functional.interpolate(
            x, scale_factor=scales, mode=mode, recompute_scale_factor=False, **options
        )

    def _resize(self, emit, x, **attributes):
        type_ = emit.type(x)
        if self.by_size:
            sizes = list(self.type_transfer(type_)[0].shape)
            return emit("Resize", x, "", "", emit.const(sizes, DType.INT64), **attributes)
        scales = emit.const([1, 1, *self.scales], DType.FLOAT32)
        return emit("Resize", x, "", scales, **attributes)


@operator
class ResizeNearest(Resizing):
    """Source position floor(i / scale)."""

    inputs = (In("T", NEAREST, (3, 5)),)

    def torch(self, x):
        if not x.is_floating_point():
            exact = x.double() if x.dtype is torch.int32 else x.float()
            return self._interpolate(exact, "nearest").to(x.dtype)
        return self._interpolate(x, "nearest")

    def onnx(self, emit, x):
        return self._resize(
            emit,
            x,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )


@operator
class ResizeLinear(Resizing):
    """Linear per spatial axis between the centres of elements, constant beyond the outermost."""

    inputs = (In("T", FLOATS, (3, 5)),)
    monotone = (1,)

    def torch(self, x):
        return self._interpolate(x, LINEAR[x.dim()], align_corners=False)

    def onnx(self, emit, x):
        return self._resize(emit, x, mode="linear", coordinate_transformation_mode="half_pixel")

    def cost(self, x):
        return 2 ** (x.rank - 1) * math.prod(self.type_transfer(x)[0].shape)

    def radius(self, u, y, x):
        """16 u per weighted input; a source position in [0, s) is off by 4 u s at most, which
        shifts weight between neighbours."""
        n = x.dim() - 2
        widest = (torch.max_pool1d, torch.max_pool2d, torch.max_pool3d)[n - 1](x.abs(), 3, 1, 1)
        return u * (16 + 4 * max(x.shape[2:])) * self.torch(widest)
