"""Products of 8-bit integers, added up in int32."""

from __future__ import annotations

from nnfuzz.operators.families.intproduct import ConvProduct, InInt32, MatMulProduct
from nnfuzz.operators.families.quantized import BYTES
from nnfuzz.operators.operator import In, operator


@operator
class MatMulInteger(MatMulProduct, InInt32):
    """(a - zero point of a) @ (b - zero point of b) in int32.

    int8 weights stay below 64, see `REDUCED`. Source: ONNX MatMulInteger-10.
    """

    weight = 2.0
    inputs = (
        In("A", BYTES, (1, 5)),
        In("B", BYTES, (1, 5)),
        In("A", ranks=(0, 1), weight=True),
        In("B", ranks=(0, 5), weight=True),
    )


@operator
class ConvInteger(ConvProduct, InInt32):
    """Convolution of (x - zero point of x) with (w - zero point of w) in int32, padded with 0.

    int8 weights stay below 64, see `REDUCED`. Source: ONNX ConvInteger-10.
    """

    weight = 3.0
    inputs = (
        In("A", BYTES, (3, 5)),
        In("B", BYTES, (3, 5), weight=True),
        In("A", ranks=(0, 1), weight=True),
        In("B", ranks=(0, 1), weight=True),
    )
