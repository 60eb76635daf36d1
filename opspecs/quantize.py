"""Quantisation of tensors and back, and products of quantised tensors, quantised again."""

from __future__ import annotations

import numpy as np
import torch

from nnfuzz.ir.dtypes import FLOAT8S, INT4S, DType
from nnfuzz.ir.types import tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.elementwise import clipped_range, products
from nnfuzz.operators.families.intproduct import ConvProduct, MatMulProduct, Requantised
from nnfuzz.operators.families.quantized import (
    BYTES,
    SCALES,
    Blocks,
    Scaled,
    dyadic,
    quantised,
    shifted_interval,
    stepped,
    tie_distance,
    wide,
)
from nnfuzz.operators.intervals import Interval, corners, everywhere
from nnfuzz.operators.operator import In, OpSpec, operator
from nnfuzz.operators.unexportable import DECOMPOSED


def quantised_pair(b, param_rank, *scales):
    """Input patterns of a and b, each with scale and zero point, then scale and zero point of the
    result.

    b: pattern of the second operand; a has the same ranks. param_rank: greatest rank of b's
    parameters. scales: dtypes of the scales.
    """
    return (
        In("A", BYTES, b.ranks),
        In("S", scales, (0, 1), weight=True, narrow=True),
        In("A", ranks=(0, 1), weight=True),
        b,
        In("S", ranks=(0, param_rank), weight=True, narrow=True),
        In("B", ranks=(0, param_rank), weight=True),
        In("S", ranks=(0, 1), weight=True, narrow=True),
        In("Y", BYTES, (0, 1), weight=True),
    )


@operator
class QLinearMatMul(MatMulProduct, Requantised):
    """Quantised a @ b; int8 weights stay below 64, see `REDUCED`.

    Source: ONNX QLinearMatMul-10, -21.
    """

    roles = "appbqqyy"
    weight = 2.0
    inputs = quantised_pair(In("B", BYTES, (1, 5)), 5, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


@operator
class QLinearConv(ConvProduct, Requantised):
    """Quantised convolution with an int32 bias whose scale is that of x times that of w.

    int8 weights stay below 64, see `REDUCED`. Source: ONNX QLinearConv-10.
    """

    roles = "appbqqyyc"
    variadic = (8, 9)
    weight = 3.0
    inputs = (
        *quantised_pair(In("B", BYTES, (3, 5), weight=True), 1, DType.FLOAT32),
        In("C", (DType.INT32,), (1, 1), weight=True),
    )


WORKING = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
PRECISIONS = {
    DType.FLOAT32: (DType.FLOAT32,),
    DType.FLOAT16: (DType.FLOAT16, DType.FLOAT32),
    DType.BFLOAT16: (DType.BFLOAT16, DType.FLOAT32),
}
SMALL = (*BYTES, DType.UINT16, DType.INT16, *INT4S, *FLOAT8S)


@operator
class QuantizeLinear(Scaled):
    """saturate(round(x / scale) + zero point), ties to even; the zero point is 0 if it is absent.

    Targets of 8-bit floats have no zero point. Source: ONNX QuantizeLinear-13, -19, -21.
    """

    since = 13
    merges = ("DequantizeLinear",)
    inputs = (
        In("T", WORKING),
        In("T", ranks=(0, 1), weight=True, narrow=True),
        In("Q", SMALL, (0, 1), weight=True),
    )
    variadic = (2, 3)
    output = "to"
    to = Choice(SMALL)
    saturate = Choice(lambda op, *_: (1, 1, 0) if op.to in FLOAT8S else (1,), default=1)
    """For 8-bit floats only; with 0, no element is beyond their range."""
    precision = Choice(lambda op, x, *_: (None, None, *PRECISIONS[x.dtype]), default=None)
    """The precision of the division, which a model may state from opset 23 on; never less than the
    input's."""
    valid = (None, SCALES)

    @classmethod
    def signatures(cls):
        return [(binding, out) for binding, out in super().signatures() if binding["Q"] is out]

    def requires(self, x, scale, *zero):
        yield from super().requires(x, scale, *zero)
        yield all(z.dtype is self.to and self.to.is_int for z in zero)
        yield self.precision in (None, *PRECISIONS[x.dtype])

    def complete(self, draw, first, dtypes):
        kept = dtypes[:2] if dtypes[-1].is_float else dtypes
        return super().complete(draw, first, kept)

    def torch(self, x, scale, *zero):
        return quantised(x / self.spread(scale, x), self._zero(x, zero), self.to)

    def _zero(self, x, zero):
        return self.spread(zero[0], x) if zero else None

    def proxy(self, x, scale, *zero):
        return x / self.spread(scale, x)

    def onnx(self, emit, x, scale, *zero):
        to = None
        if not zero and emit.opset >= 21:
            to = self.to
        elif not zero and self.to is not DType.UINT8:
            zero = (emit.const(np.zeros(emit.type(scale).shape), self.to),)
        said = {"output_dtype": to, **self.layout()}
        said["saturate"] = 0 if self.to in FLOAT8S and not self.saturate else None
        said["precision"] = self.precision if emit.opset >= 23 else None
        return emit("QuantizeLinear", x, scale, *zero, **said)

    def domain(self, x, scale, *zero):
        found = super().domain(x, scale, *zero)
        if self.to in FLOAT8S and not self.saturate:
            found.append(self.proxy(x, scale).abs() - 0.999 * self.to.limits[1])
        return found

    def margins(self, x, scale, *zero):
        s = self.spread(scale, x)
        zeros = [self.spread(z, x) for z in zero]
        return [tie_distance(x / s, zeros, self.to) * s]

    def value_range(self, x, scale, *zero):
        least, most = self.to.limits
        if zero:
            return least, most
        return (0 if x[0] >= 0 else least), (0 if x[1] <= 0 else most)

    def decided(self, u, x, scale, *zero):
        """Exact quotients are rounded in one way ("for (x / y_scale), it rounds to the nearest
        even", QuantizeLinear-13 and later) unless the zero point is odd: integer kernels that
        replace DequantizeLinear, an operator and QuantizeLinear add the zero point first, which
        moves the tie.
        """
        s = self.spread_interval(scale, x)
        shift = [self.spread_interval(z, x) for z in zero]
        v = corners(torch.div, x, s).masked(everywhere(s.lo, s.lo <= 0))
        exact = dyadic(s) & (x.lo == x.hi)
        for z in shift:
            exact = exact & (wide(z.lo).remainder(2) == 0)
        error = torch.where(exact, 0.0, 2.5 * u * v.far().abs())
        return [stepped(v, error, shift, self.to)]


@operator
class BlockQuantizeLinear(Blocks, QuantizeLinear):
    """QuantizeLinear with one scale per block of an axis. Source: ONNX QuantizeLinear-21."""

    since = 21
    inputs = (
        In("T", WORKING, (2, 5)),
        In("T", ranks=(2, 5), weight=True, narrow=True),
        In("Q", SMALL, (2, 5), weight=True),
    )


@operator
class DequantizeLinear(Scaled):
    """(x - zero point) * scale in the scale's dtype; int32 and floats have no zero point.

    Source: ONNX DequantizeLinear-13, -19, -21.
    """

    since = 13
    merges = ("QuantizeLinear",)
    inputs = (
        In("Q", (*SMALL, DType.INT32)),
        In("T", WORKING, (0, 1), weight=True, narrow=True),
        In("Q", ranks=(0, 1), weight=True),
    )
    variadic = (2, 3)
    typed = Choice((0, 0, 1), default=0)
    """Whether the model states the dtype of the output, possible from opset 23 on."""
    valid = (None, SCALES)
    exactness = "rounded"

    def requires(self, x, scale, *zero):
        yield from super().requires(x, scale, *zero)
        yield not zero or self._shifts(x.dtype)

    def _shifts(self, dtype):
        return dtype.is_int and dtype is not DType.INT32

    def complete(self, draw, first, dtypes):
        kept = dtypes if self._shifts(first.dtype) else dtypes[:2]
        return super().complete(draw, first, kept)

    def torch(self, x, scale, *zero):
        y = self._shifted(x, *zero).to(wide(scale).dtype) * self.spread(wide(scale), x)
        return y.to(scale.dtype)

    def _shifted(self, x, *zero):
        whole = x if x.is_floating_point() else x.to(torch.int32)
        return whole - self.spread(zero[0], x).to(torch.int32) if zero else whole

    def onnx(self, emit, *values):
        said = self.typed and emit.opset >= 23
        to = emit.type(values[1]).dtype if said else None
        return emit("DequantizeLinear", *values, output_dtype=to, **self.layout())

    def domain(self, x, scale, *zero):
        """The difference must be finite in the dtype of the scale as well."""
        y = self.torch(x, wide(scale), *zero)
        largest = torch.finfo(scale.dtype).max / 2
        difference = self._shifted(x, *zero).double().abs()
        return [*super().domain(x, scale, *zero), y.abs() - largest, difference - largest]

    def proxy(self, x, scale, *zero):
        whole = x - self.spread(zero[0], x) if zero else x
        return whole * self.spread(scale, x)

    def value_range(self, x, scale, *zero):
        lo, hi = zero[0] if zero else (0, 0)
        return products((x[0] - hi, x[1] - lo), clipped_range(scale, SCALES))

    def radius(self, u, y, *xs):
        return 2 * u * y.abs()

    def interval(self, x, scale, *zero):
        whole = shifted_interval(x, self.spread_interval(zero[0], x) if zero else None)
        return [corners(torch.mul, whole, self.spread_interval(scale, x))]


@operator
class BlockDequantizeLinear(Blocks, DequantizeLinear):
    """DequantizeLinear with one scale per block of an axis. Source: ONNX DequantizeLinear-21."""

    since = 21
    inputs = (
        In("Q", (*SMALL, DType.INT32), (2, 5)),
        In("T", WORKING, (2, 5), weight=True, narrow=True),
        In("Q", ranks=(2, 5), weight=True),
    )


def _span(x):
    """The width of a range that is extended to contain 0."""
    return max(x[1], 0) - min(x[0], 0)


@operator
class DynamicQuantizeLinear(OpSpec):
    """x as uint8 over the range of x and 0, with its scale and zero point as further outputs.

    Source: ONNX DynamicQuantizeLinear-11.
    """

    unexportable = DECOMPOSED
    inputs = (In("T", (DType.FLOAT32,)),)
    output = DType.UINT8

    def type_transfer(self, x):
        dtypes = (DType.UINT8, x.dtype, DType.UINT8)
        return tensor_types(dtypes, x.shape, (), ())

    def onnx(self, emit, x):
        return emit("DynamicQuantizeLinear", x, outputs=3)

    def torch(self, x):
        least, scale = self._range(x)
        zero = quantised(-least / scale, None, DType.UINT8)
        return quantised(x / scale, zero, DType.UINT8), scale, zero

    def _range(self, x):
        """The lower end of the range, at most 0, and the scale."""
        least = x.min().clamp(max=0)
        return least, (x.max().clamp(min=0) - least) / 255

    def proxy(self, x):
        least, scale = self._range(x)
        return x / scale, scale, -least / scale

    def domain(self, x):
        scale = self._range(x)[1]
        return [1e-4 - scale, scale - 255]

    def margins(self, x):
        least, scale = self._range(x)
        zero = quantised(-least / scale, None, DType.UINT8)
        return [
            tie_distance(-least / scale, [], DType.UINT8) * scale,
            tie_distance(x / scale, [zero], DType.UINT8) * scale,
        ]

    def value_range(self, x):
        return 0, 255

    def further(self, x):
        """Ranges of the scale and of the zero point, which is an end of its range if all numbers
        have one sign."""
        zero = (0, 0) if x[0] >= 0 else (255, 255) if x[1] <= 0 else (0, 255)
        least = max(1e-4, x[0] / 255, -x[1] / 255)
        return ((min(least, 255.0), max(1e-4, min(255.0, _span(x) / 255))),), (zero,)

    def feasible(self, x):
        return _span(x) >= 0.999 * 255e-4

    def radius(self, u, y, x):
        return 3 * u * y.abs()

    def decided(self, u, x):
        mask = everywhere(x.lo, False if x.any is None else x.any)
        least = Interval(x.lo.min().clamp(max=0), x.hi.min().clamp(max=0))
        most = Interval(x.lo.max().clamp(min=0), x.hi.max().clamp(min=0))
        scale = Interval((most.lo - least.hi) / 255, (most.hi - least.lo) / 255)
        lost = everywhere(x.lo, scale.lo <= 0)
        near = Interval(scale.lo * (1 - 4 * u), scale.hi * (1 + 4 * u))
        at = corners(torch.div, Interval(-least.hi, -least.lo), near)
        zero = stepped(at, 4 * u * at.hi, [], DType.UINT8)
        v = corners(torch.div, x, near)
        y = stepped(v, 4 * u * v.far().abs(), [zero], DType.UINT8).masked(mask).masked(lost)
        gone = None if y.any is None else y.any.any()
        return [y, scale.masked(gone), zero.masked(gone)]
