from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.resize import ResizeAntialias, ResizeCubic, ResizeLinear, ResizeNearest

from nnfuzz.compare.envelope import admitted
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t


def resize(spec, scales, transformation="half_pixel", by_size=0, **others):
    given = {"region": (0, 1), "transformation": transformation, **others}
    return spec(scales=scales, by_size=by_size, **given)


def test_nearest_takes_the_lower_neighbour():
    op = resize(ResizeNearest, (2, 0.5), "asymmetric", nearest_mode="floor")
    assert op.type_transfer(t(1, 1, 2, 5))[0].same(t(1, 1, 4, 2))
    y = op.torch(ramp(1, 1, 2, 5).to(torch.int32))
    assert y[0, 0].tolist() == [[0, 2], [0, 2], [5, 7], [5, 7]]


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


def test_linear_meets_at_half_pixels():
    op = resize(ResizeLinear, (2,), by_size=1)
    assert op.torch(ramp(1, 1, 3)).flatten().tolist() == [0, 0.25, 0.75, 1.25, 1.75, 2]


def test_aligned_corners_keep_the_ends():
    y = resize(ResizeLinear, (3,), "align_corners").torch(ramp(1, 1, 3)).flatten()
    assert (y[0], y[-1]) == (0, 2)
    assert y.tolist() == pytest.approx([i / 4 for i in range(9)])


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


@pytest.mark.parametrize("transformation", ["half_pixel", "align_corners"])
def test_cubic_agrees_with_pytorch(transformation):
    given = {"cubic_coeff_a": -0.75, "exclude_outside": 0}
    op = resize(ResizeCubic, (2, 0.5), transformation, **given)
    x = torch.rand(2, 3, 6, 8, dtype=torch.float64, generator=torch.manual_seed(0))
    corners = transformation == "align_corners"
    y = torch.nn.functional.interpolate(x, size=(12, 4), mode="bicubic", align_corners=corners)
    assert torch.allclose(op.torch(x), y, atol=1e-12)


def test_antialiasing_of_halves_is_a_tent():
    given = {"method": "linear", "exclude_outside": 1, "named": 1, "policy": None}
    y = resize(ResizeAntialias, (0.5,), **given).torch(ramp(1, 1, 8)).flatten()
    assert y.tolist()[1:3] == pytest.approx([2.5, 4.5])
    assert y[0] == pytest.approx((0 * 3 + 1 * 3 + 2 * 1) / 7)


def test_policies_only_where_they_change_nothing():
    for op, _ in solved(ResizeAntialias, DType.FLOAT32, 200):
        assert op.policy is None or (op.named and op.by_size and len(set(op.scales)) == 1)


def test_each_weighted_neighbour_may_be_flushed_to_zero():
    x = torch.tensor([[[-(2.0**-125), -(2.0**-126), 0.0]]], dtype=torch.float64)
    (bounds,) = admitted(resize(ResizeLinear, (2,)), [x], [DType.FLOAT32], 2.0**-24)
    assert (bounds.hi >= 0).all()  # 2^-125 / 4 and 2^-126 * 3 / 4 are subnormal, their sum is not
