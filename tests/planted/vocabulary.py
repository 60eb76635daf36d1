"""What the bench's compiler interprets: the operators and dtypes that its bugs are planted in."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.testcase.case import CaseConfig

OPERATORS = tuple(
    """
    Abs Acos Add And ArgMax ArgMin Asin Atan AveragePool BatchNormalization Cast Ceil Clip Concat
    Conv Cos Cosh CumSum Div Elu Equal Erf Exp Expand Flatten Floor Gather Gelu Gemm
    GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual HardSigmoid HardSwish
    InstanceNormalization LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max
    MaxPool Min Mod Mul Neg Not Or PRelu Pad Pow Reciprocal ReduceL2 ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum Relu Reshape ResizeLinear ResizeNearest Round Sigmoid Sign Sin Sinh Slice
    Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Tan Tanh Tile Transpose Trilu Unsqueeze
    Where Xor
    """.split()
)
_KNOWN = "bool int8 int16 int32 int64 uint8 float16 float32 float64".split()
CONFIG = CaseConfig(
    exporter="direct",
    operators=OPERATORS,
    dtypes={dtype.value: 0.0 for dtype in DType if dtype.value not in _KNOWN},
)
