"""Pooling, resizing, windows and samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from nnfuzz.opspecs.mel import MelWeightMatrix, edges
from nnfuzz.opspecs.resize import ResizeAntialias, ResizeCubic, ResizeLinear, ResizeNearest
from nnfuzz.opspecs.roi import RoiAlignMax
from nnfuzz.opspecs.sample import GridSampleNearest
from nnfuzz.opspecs.suppression import NonMaxSuppression
from nnfuzz.opspecs.unpool import MaxPoolIndices

from nnfuzz.compare.envelope import Tracked, admitted, enclosed
from nnfuzz.compare.reference import PRECISIONS
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t


def test_the_largest_sample_is_right_for_uncertain_images_as_well():
    """The largest weighted neighbour is no less, and further off at one end than at the other."""
    given = {"sampling_ratio": 1, "spatial_scale": 1.0, "half_pixel": 0}
    op = RoiAlignMax(size=(1, 1), **given)
    rois, image = torch.tensor([[0.0, 0.0, 1.0, 1.0]]).double(), torch.tensor([0])
    x = torch.tensor([[[[8.0, 8.0], [-8.0, 8.0]]]], dtype=torch.float64)
    lo = torch.tensor([[[[8.0, -8.0], [-8.0, -8.0]]]], dtype=torch.float64)
    inputs = [Interval(lo, x), Interval(rois, rois), Interval(image, image)]
    tracked = [Tracked(b.hi, b) for b in inputs]
    precision = PRECISIONS[DType.FLOAT32]
    (found,) = enclosed(op, tracked, [op.torch(x, rois, image)], [precision])
    largest = op._samples(lo, rois, image).amax(-1)
    assert largest < op.torch(lo, rois, image)
    assert found.lo <= largest <= found.hi


def test_positions_of_uncertain_bytes():
    op = next(op for op, _ in solved(MaxPoolIndices, DType.UINT8, 1))
    x = torch.arange(64, dtype=torch.uint8)
    shape = (1, 1, *(4 if i else 64 // 4 ** (len(op.strides) - 1) for i in range(len(op.strides))))
    x = x.reshape(shape)
    values, indices = op.interval(Interval(x, x + 1))
    assert values.lo.dtype is torch.uint8
    assert bool((indices.lo <= indices.hi).all())


def nearest(x, position):
    """The interval at a position along four elements of float32, reflected at the ends."""
    op = GridSampleNearest(padding_mode="reflection", align_corners=0)
    grid = torch.tensor([[[[position, 0.0]]]], dtype=torch.float64)
    middle = (x.lo + x.hi) / 2
    inputs = [Tracked(middle, x), Tracked(grid, Interval(grid, grid))]
    return enclosed(op, inputs, [op.torch(middle, grid)], [PRECISIONS[DType.FLOAT32]], 2.0**-24)[0]


def test_either_neighbour_of_a_tie_may_be_taken_with_all_that_it_may_be():
    """At 6.0 lies 13.5, which is 1.5 once it is reflected: the second one or the third."""
    lo = torch.tensor([[[[9.0, 0.4, 1.0, -9.0]]]], dtype=torch.float64)
    hi = torch.tensor([[[[9.0, 0.6, 1.0, -9.0]]]], dtype=torch.float64)
    tie = nearest(Interval(lo, hi), 6.0)
    assert (tie.lo.item(), tie.hi.item()) == (0.4, 1.0)
    none = nearest(Interval(lo, hi), 5.75)
    assert (none.lo.item(), none.hi.item()) == (1.0, 1.0)


def test_far_out_any_element_may_be_the_nearest():
    x = torch.tensor([[[[2.0, 3.0, 4.0, 5.0]]]], dtype=torch.float64)
    assert nearest(Interval(x, x), 1e7).hi.item() == 5.0


def resize(spec, scales, transformation="half_pixel", by_size=0, **others):
    given = {"region": (0, 1), "transformation": transformation, **others}
    return spec(scales=scales, by_size=by_size, **given)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("round_prefer_floor", [0, 2]), ("round_prefer_ceil", [1, 3]), ("ceil", [1, 3])],
)
def test_ties_go_where_the_mode_says(mode, expected):
    op = resize(ResizeNearest, (0.5,), nearest_mode=mode)
    assert op.torch(ramp(1, 1, 4)).flatten().tolist() == expected


def test_nearest_positions_of_thirds_stay_away_from_jumps():
    for op, _ in solved(ResizeNearest, DType.FLOAT32, 200):
        if 3 in op.scales:
            assert op.nearest_mode != "ceil"
            assert op.transformation == "asymmetric" or op.nearest_mode != "floor"


def test_sizes_say_the_same_as_scales_only_without_remainder():
    with pytest.raises(ConstraintError):
        resize(ResizeLinear, (0.5,), by_size=1).check(t(1, 1, 5))
    resize(ResizeLinear, (0.5,)).check(t(1, 1, 5))
    with pytest.raises(ConstraintError):
        resize(ResizeLinear, (0.5,), "align_corners").check(t(1, 1, 5))


def test_a_region_comes_with_sizes():
    """With scales, Resize-19 has floor(size * (end - start) * scale) elements, runtimes do not."""
    mode = "tf_crop_and_resize"
    with pytest.raises(ConstraintError):
        resize(ResizeLinear, (2,), mode, region=(0, 0.75)).check(t(1, 1, 4))
    resize(ResizeLinear, (2,), mode, by_size=1, region=(0, 0.75)).check(t(1, 1, 4))
    found = [op for op, _ in solved(ResizeCubic, DType.FLOAT32, 60) if op.transformation == mode]
    assert found and all(op.by_size for op in found)


def test_policies_only_where_they_change_nothing():
    for op, _ in solved(ResizeAntialias, DType.FLOAT32, 200):
        assert op.policy is None or (op.named and op.by_size and len(set(op.scales)) == 1)


def test_each_weighted_neighbour_may_be_flushed_to_zero():
    x = torch.tensor([[[-(2.0**-125), -(2.0**-126), 0.0]]], dtype=torch.float64)
    (bounds,) = admitted(resize(ResizeLinear, (2,)), [x], [DType.FLOAT32], 2.0**-24)
    assert (bounds.hi >= 0).all()  # 2^-125 / 4 and 2^-126 * 3 / 4 are subnormal, their sum is not


def test_bands_overlap_by_half():
    op = MelWeightMatrix(bank=(3, 32, 16000, 0, 8000))
    matrix = op.matrix()
    assert matrix.shape == (17, 3)
    assert np.allclose(matrix.max(0), 1)
    between = slice(*matrix.argmax(0)[[0, -1]])
    assert np.allclose(matrix.sum(1)[between], 1)


def test_edges_of_bands_are_clear_of_roundings():
    for op, _ in solved(MelWeightMatrix, DType.FLOAT32, 60):
        found = edges(*op.bank)[(0 if op.bank[3] else 1) :]
        assert np.abs(found - found.round()).min() > 1e-3


# Suppression of boxes: decisions that rounding may turn over.


U = 2.0**-24


def operands(seed: int, n: int = 2, c: int = 2, s: int = 6):
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(n, s, 2, generator=generator)
    size = torch.rand(n, s, 2, generator=generator) + 0.2
    return torch.cat((corner, corner + size), -1), torch.rand(n, c, s, generator=generator)


def test_equal_scores_leave_the_order_open():
    op = NonMaxSuppression(center_point_box=0, most=3, iou=0.3, least=None, rows=4)
    boxes, scores = (v.double() for v in operands(2))
    (interval,) = op.decided(U, Interval(boxes, boxes), Interval(scores, scores))
    assert interval.any is None
    scores[0, 0, :2] = scores.max() + 1
    (interval,) = op.decided(U, Interval(boxes, boxes), Interval(scores, scores))
    assert bool(interval.any.all())
