"""Elementwise operators, reductions, normalisations and losses."""

from __future__ import annotations

from nnfuzz.ir.dtypes import FLOATS, INT4S, UNSIGNED, DType
from nnfuzz.operators.waiver import Waiver, body, reference, rounds

ROUNDED = (
    'technical/int4.md: "Cast to a 4 bit type is done by rounding to the nearest-integer (with '
    'ties to even)"'
)


def _to_int4(op, x, *_):
    return op.to in INT4S and x.dtype.is_float


def _uncounted(op, *types):
    """Whether the mean includes positions that do not count."""
    return op.ignore_index == -1 and op.reduction == "mean" and len(types) == 2


GELU = 'Gelu-20: "is applied to the tensor elementwise"'


def _exact_gelu(op, x):
    return op.approximate == "none"


CAST = (
    reference("truncates floats", ROUNDED, where=_to_int4),
    Waiver(
        "onnxruntime",
        "rounds ties away from zero (1.31)",
        f"{ROUNDED}; ties are not compared",
        where=_to_int4,
    ),
)

WAIVERS = {
    "Cast": CAST,
    "CastLike": (*CAST, body("truncates floats, being a Cast", ROUNDED, where=_to_int4)),
    "Erf": (rounds("results", 'Erf-13: the output "has the same shape and type of the input"'),),
    "Gelu": (
        rounds("its Erf", GELU, where=_exact_gelu),
        body("runs its Erf in float32", GELU, dtypes=(DType.FLOAT64,), where=_exact_gelu),
    ),
    "Celu": (
        body(
            "makes alpha a vector of one, and a scalar with it",
            'Celu-12, Constant-13: "element-wise"; value_float is the value of "the scalar"',
            dtypes=(DType.FLOAT32,),
            where=lambda op, x: x.rank == 0,
        ),
    ),
    "Shrink": (
        Waiver(
            "onnxruntime",
            "computes in float32, whatever the type (1.31)",
            'Shrink-9: "having same datatype and shape with input"',
            dtypes=(DType.FLOAT64,),
        ),
        body(
            "negates lambd in the type of x, so that x < -lambd holds of small unsigned numbers",
            'Shrink-9: "If x < -lambd, y = x + bias; [...] Otherwise, y = 0."',
            dtypes=UNSIGNED,
        ),
    ),
    "ReduceSumSquare": (
        reference(
            "yields 64 bits for integers of 32",
            "ReduceSumSquare-18: data and reduced are both of type T",
            dtypes=(DType.INT32, DType.UINT32),
        ),
    ),
    "ReduceL2": (
        body(
            "takes the root in float32, whatever the type",
            "ReduceL2-18: data and reduced are both of type T",
            dtypes=(DType.FLOAT64,),
        ),
    ),
    "LayerNormalizationStatistics": (
        reference(
            "gives statistics the type of the input",
            "LayerNormalization-17: Mean and InvStdDev are of type U, stash_type is 1, float",
            dtypes=(DType.FLOAT16, DType.BFLOAT16),
        ),
    ),
    "BatchNormalization": (
        reference(
            "averages the statistics given and those of the batch",
            'BatchNormalization-9: "Output case #2: Y (test mode)", for which the mean and '
            "variance are inputs",
            below=14,
        ),
    ),
    "LpNormalization": (
        reference(
            "adds up the numbers for p = 1, not their absolute values",
            "LpNormalization-22: output = input / Lp_norm(input, axis)",
            where=lambda op, *_: op.p == 1,
            known="onnx/onnx#8427",
        ),
    ),
    "LRN": (
        reference(
            "walks over as many channels as there are batches",
            "LRN-13: square_sum[n, c, d1, ..., dk] = sum(X[n, i, d1, ..., dk] ^ 2), where "
            "max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c + ceil((size - 1) / 2))",
            where=lambda op, x: x.shape[0] < x.shape[1],
            known="onnx/onnx#7805",
        ),
        rounds("alpha / size", "LRN-13: X and Y are both of type T"),
    ),
    "NegativeLogLikelihoodLoss": (
        reference(
            "divides by the number of all positions, not of those that count, for an ignore_index "
            "of -1",
            "NegativeLogLikelihoodLoss-13: \"'mean': the sum of the output will be divided by the "
            'sum of applied weights", which the function body has 0 where target = ignore_index',
            where=_uncounted,
            known="onnx/onnx#8433",
        ),
    ),
    "SoftmaxCrossEntropyLoss": (
        body(
            "is a NegativeLogLikelihoodLoss, and divides as onnx.reference does for that",
            "SoftmaxCrossEntropyLoss-13: the function body of that loss counts no position where "
            "target = ignore_index, nor does onnx.reference for this one",
            where=_uncounted,
            known="onnx/onnx#8433",
        ),
    ),
    "OneHot": (
        reference(
            "adds the product of the mask and on_value - off_value to off_value, which rounds",
            "OneHot-11: locations \"will have 'on_value' and the other locations will have "
            "'off_value' in the output tensor\"",
            dtypes=FLOATS,
        ),
    ),
}
