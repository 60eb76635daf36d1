"""Resampling at regular and at computed positions."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.waiver import Waiver, reference, rounds


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

WAIVERS = {
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
}
