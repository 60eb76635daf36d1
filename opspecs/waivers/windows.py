"""Pools and convolutions."""

from __future__ import annotations

from nnfuzz.operators.waiver import reference, rounds


def _strideless(op, *types):
    """Whether strides and dilations are 1, where the reference takes another code path."""
    return all(step == 1 for step in (*op.strides, *(op.dilations or ())))


def _misread(op, x):
    """Whether the reference misreads the paddings, as it does for stride 1."""
    return _strideless(op) and (op.pads[1] != op.pads[2] if x.rank == 4 else any(op.pads))


def _grouped(op, x, w, *bias):
    """Whether there are groups, other than groups of single channels without a bias."""
    return op.group > 1 and (bool(bias) or not x.shape[1] == w.shape[0] == op.group * w.shape[1])


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
    "ConvInteger": (
        reference(
            "takes zero points per channel for those of images",
            "ConvInteger-10: \"If it's a 1-D tensor, its number of elements should be equal to the "
            'number of output channels (M)", whatever the number of axes',
            where=lambda op, *_: op.channels and len(op.strides) != 2,
        ),
    ),
    "QLinearConv": (
        reference(
            "takes parameters per channel for those of images",
            "QLinearConv-10: \"If it's a 1-D tensor, its number of elements should "
            'be equal to the number of output channels (M)", whatever the number of axes',
            where=lambda op, *_: op.channels and len(op.strides) != 2,
        ),
    ),
    "DeformConv": (
        rounds("positions (by way of GridSample)", "DeformConv-19: X and Y are both of type T"),
    ),
}
