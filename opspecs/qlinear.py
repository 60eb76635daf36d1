"""Products of quantised tensors, quantised again."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.intproduct import ConvProduct, MatMulProduct, Requantised
from nnfuzz.operators.families.quantized import BYTES
from nnfuzz.operators.operator import In, operator


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
