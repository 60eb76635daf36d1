"""Waivers: where reference implementations are wrong on built-in operators, with the clause that
decides."""

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


def _shrinks_to_one(op, x):
    spatial = op.type_transfer(x)[0].shape[2:]
    return op.transformation == "pytorch_half_pixel" and 1 in spatial


SINGLE_ELEMENT = reference(
    "has no exception for a single element",
    'Resize-19: if coordinate_transformation_mode is "pytorch_half_pixel", x_original = '
    "length_resized > 1 ? (x_resized + 0.5) / scale - 0.5 : 0",
    where=_shrinks_to_one,
    known="onnx/onnx#4275",
)
REGION_IGNORED = Waiver(
    "onnxruntime",
    "ignores the region of axes whose scale is 1 (1.31)",
    'Resize-19: "tf_crop_and_resize" has x_original = start_x * (length_original - 1) + x_resized '
    "* (end_x - start_x) * (length_original - 1) / (length_resized - 1)",
    where=lambda op, *_: op.transformation == "tf_crop_and_resize" and 1 in op.scales,
)
CUBIC_IN_FLOAT32 = rounds(
    "cubic coefficients",
    "Resize-19: X and Y are both of type T1",
    where=lambda op, *_: op.method == "cubic",
)
POSITIONS_IN_FLOAT32 = rounds("positions", "GridSample-20: X and Y are both of type T1")


LENGTHS_IGNORED = reference(
    "ignores sequence_lens",
    'RNN-14, GRU-14, LSTM-14: sequence_lens "specif[ies] lengths of the sequences in a batch"',
    where=lambda op, *_: bool(op.lens),
)
UNCLIPPED = reference(
    "ignores clip",
    'RNN-14, GRU-14, LSTM-14: "Clipping bounds the elements of a tensor in the range of '
    '[-threshold, +threshold] and is applied to the input of activations."',
    where=lambda op, *_: op.clip is not None,
)
OTHERWISE_ACTIVATED = reference(
    "ignores activations",
    'GRU-14, LSTM-14: activations are "a list of [...] activation functions for [...] gates"',
    where=lambda op, *_: op.activations not in ((), op.defaults * op.directions),
)


def _strideless(op, *types):
    """Whether strides and dilations are 1, where the reference takes another code path."""
    return all(step == 1 for step in (*op.strides, *(op.dilations or ())))


def _misread(op, x):
    """Whether the reference misreads the paddings, as it does for stride 1."""
    return _strideless(op) and (op.pads[1] != op.pads[2] if x.rank == 4 else any(op.pads))


def _grouped(op, x, w, *bias):
    """Whether there are groups, other than groups of single channels without a bias."""
    return op.group > 1 and (bool(bias) or not x.shape[1] == w.shape[0] == op.group * w.shape[1])


def per_image(version):
    """The waiver of convolutions of integers. version: of the operator."""
    return reference(
        "takes parameters per channel for those of images",
        f"{version}: \"If it's a 1-D tensor, its number of elements should be equal to the number "
        'of output channels (M)", whatever the number of axes',
        where=lambda op, *_: op.channels and len(op.strides) != 2,
    )


SHIFTED = reference(
    "divides what windows overhang by between both sides, which shifts all of them",
    'AveragePool-22: pads is the "padding for the beginning and ending along each '
    'spatial axis"; ceil_mode says "whether to use ceil or floor [...] to compute the output '
    'shape" only',
    where=lambda op, x: op.overhang(x) > 1,
)
FLOORED = reference(
    "rounds the number of windows down for SAME_LOWER",
    'MaxPool-22: "SAME_UPPER or SAME_LOWER mean pad the input so that `output_shape[i] = '
    'ceil(input_shape[i] / strides[i])` for each axis `i`"',
    where=lambda op, x: (
        op.auto_pad == "SAME_LOWER" and any(d % s for d, s in zip(x.shape[2:], op.strides))
    ),
)
MISPLACED = reference(
    "takes the position within a window for one within the output, and misreads pads as it does "
    "for MaxPool, if windows have stride 1",
    'MaxPool-22: "The indices are computed as flatten 1-D tensor, and the indices do not consider '
    'padding. So the values in indices are in [0, N x C x D1 x ... x Dn)."',
    where=_strideless,
)


WAIVERS = {
    # Elementwise operators, reductions, normalisations and losses.
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
    # Resampling at regular and at computed positions.
    "ResizeNearest": (SINGLE_ELEMENT,),
    "ResizeLinear": (SINGLE_ELEMENT, REGION_IGNORED),
    "ResizeCubic": (SINGLE_ELEMENT, REGION_IGNORED, CUBIC_IN_FLOAT32),
    "ResizeAntialias": (SINGLE_ELEMENT, CUBIC_IN_FLOAT32),
    "GridSample": (
        POSITIONS_IN_FLOAT32,
        reference(
            "moves the position to the border, not each of its neighbours",
            'GridSample-20: "See also in [torch.nn.functional.grid_sample]", which moves those; '
            "the standard's own words are of locations only",
            where=lambda op, *_: op.mode == "cubic" and op.padding_mode == "border",
        ),
    ),
    "GridSampleVolume": (POSITIONS_IN_FLOAT32,),
    "AffineGrid": (
        reference(
            "yields float32, whatever the input",
            "AffineGrid-20: theta and grid are both of type T1",
            dtypes=(DType.FLOAT64,),
        ),
    ),
    # Recurrent cells, loops and sequences.
    "RNN": (LENGTHS_IGNORED, UNCLIPPED),
    "GRU": (LENGTHS_IGNORED, UNCLIPPED, OTHERWISE_ACTIVATED),
    "LSTM": (LENGTHS_IGNORED, OTHERWISE_ACTIVATED),
    "Loop": (
        reference(
            "takes an absent condition for false",
            'Loop-13: input (trip_count, "") is analogous to for (int i=0; i < trip_count; ++i) '
            "{ cond = ...; // ignored }",
            where=lambda op, *_: op.style == "count" and op.trips,
        ),
        reference(
            "concatenates what it should stack",
            "Loop-13: user_defined_vals[i] = user_defined_val; a dimension is added in front",
            where=lambda op, x, *_: op.stacked and x.rank != 1,
            known="onnx/onnx#3122",
        ),
    ),
    **dict.fromkeys(
        ("Range", "RangeUpTo"),
        (
            body(
                "concatenates what its Loop should stack",
                'Range-11: the output is "a 1-D tensor"',
            ),
        ),
    ),
    "OptionalGetElement": (
        reference(
            "makes an optional tensor a list of one, and that an array with a further axis",
            'OptionalGetElement-18: "If the input is an optional type, it outputs the element in '
            'the input."',
        ),
    ),
    # Pools and convolutions.
    "MaxPool": (
        reference(
            "takes the pads of two axes for [top, bottom, left, right], and leaves those of one or "
            "three axes out, if windows have stride 1",
            'MaxPool-22: "`pads` format should be as follow [x1_begin, x2_begin...x1_end, '
            'x2_end,...]"',
            where=_misread,
        ),
        FLOORED,
    ),
    "AveragePool": (SHIFTED,),
    "AveragePoolDilated": (SHIFTED,),
    "LpPool": (
        reference(
            "multiplies the mean by the size of the kernel, also where windows overhang",
            'LpPool-18: "computing the Lp norm on all values of a subset of the input tensor '
            'according to the kernel size"',
            where=lambda op, x: op.overhang(x) > 0,
        ),
    ),
    "GlobalMaxPool": (
        reference(
            "reduces the axes r - 2 and r - 1 of r spatial ones",
            'GlobalMaxPool-22: "The first two dimensions of output shape are the same as the input '
            '(N x C), while the other dimensions are all 1."',
            where=lambda op, x: x.rank != 4,
            known="onnx/onnx#7682",
        ),
    ),
    "MaxPoolIndices": (MISPLACED, FLOORED),
    "MaxUnpool": (MISPLACED,),
    "ConvTranspose": (
        reference(
            "divides the weights by output instead of input channels, gives every group the first "
            "biases, and keeps one output channel of each",
            'ConvTranspose-22: group is the "number of groups input channels and output channels '
            'are divided into"; W has the shape (C x M/group x kH x kW)',
            where=_grouped,
            known="onnx/onnx#8446",
        ),
    ),
    "ConvInteger": (per_image("ConvInteger-10"),),
    "QLinearConv": (per_image("QLinearConv-10"),),
    "DeformConv": (
        rounds("positions (by way of GridSample)", "DeformConv-19: X and Y are both of type T"),
    ),
}
