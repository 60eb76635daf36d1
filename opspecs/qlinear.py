"""Products of quantised tensors, quantised again."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.spec.families.intfactors import ConvProduct, MatMulProduct
from nnfuzz.spec.families.intproduct import Requantised
from nnfuzz.spec.families.quantized import BYTES, SCALES
from nnfuzz.spec.operator import In, operator

OUT_SCALES = (0.03, 2.0)
"""Scales of results, so that most of the usual sums do not saturate."""


@operator
class QLinearMatMul(MatMulProduct, Requantised):
    """Quantised a @ b; int8 weights stay below 64, see `REDUCED`.

    Source: ONNX QLinearMatMul-10, -21.
    """

    roles = "appbqqyy"
    weight = 2.0
    inputs = (
        In("A", BYTES, (1, 5)),
        In("S", (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16), (0, 0), weight=True),
        In("A", ranks=(0, 0), weight=True),
        In("B", BYTES, (1, 5)),
        In("S", ranks=(0, 5), weight=True),
        In("B", ranks=(0, 5), weight=True),
        In("S", ranks=(0, 0), weight=True),
        In("Y", BYTES, (0, 0), weight=True),
    )
    valid = (None, SCALES, None, None, SCALES, None, OUT_SCALES)

    def onnx_attributes(self):
        return {}


@operator
class QLinearConv(ConvProduct, Requantised):
    """Quantised convolution, the bias in int32 with scale x's * w's.

    int8 weights stay below 64, see `REDUCED`. Source: ONNX QLinearConv-10.
    """

    roles = "appbqqyyc"
    variadic = (8, 9)
    weight = 3.0
    inputs = (
        In("A", BYTES, (3, 5)),
        In("S", (DType.FLOAT32,), (0, 0), weight=True),
        In("A", ranks=(0, 0), weight=True),
        In("B", BYTES, (3, 5), weight=True),
        In("S", ranks=(0, 1), weight=True),
        In("B", ranks=(0, 1), weight=True),
        In("S", ranks=(0, 0), weight=True),
        In("Y", BYTES, (0, 0), weight=True),
        In("C", (DType.INT32,), (1, 1), weight=True),
    )
    valid = QLinearMatMul.valid
