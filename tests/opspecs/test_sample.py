from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.convtranspose import ConvTranspose
from nnfuzz.opspecs.deform import DeformConv
from nnfuzz.opspecs.pad import Pad
from nnfuzz.opspecs.pool import AveragePoolDilated, GlobalLpPool, LpPool
from nnfuzz.opspecs.roi import MaxRoiPool, RoiAlign, RoiAlignMax
from nnfuzz.opspecs.sample import AffineGrid, GridSample, GridSampleNearest
from nnfuzz.opspecs.unpool import MaxPoolIndices, MaxUnpool

from nnfuzz.compare.envelope import Tracked, enclosed
from nnfuzz.compare.precision import PRECISIONS
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t


def drawn(spec, count=40, span=0.5, seed=0):
    """Instances with float64 inputs."""
    generator = torch.Generator().manual_seed(seed)
    for op, types in solved(spec, DType.FLOAT64, count):
        tensors = [
            torch.zeros(x.shape, dtype=torch.int64)
            if x.dtype.is_int
            else (torch.rand(x.shape, dtype=torch.float64, generator=generator) - 0.25) * 4 * span
            for x in types
        ]
        yield op, tensors


def jittered(x, width, generator):
    return x + (torch.rand(x.shape, dtype=x.dtype, generator=generator) * 2 - 1) * width


SPECS = [
    *(ConvTranspose, DeformConv, GridSample, GridSampleNearest, RoiAlign, RoiAlignMax, LpPool),
    *(GlobalLpPool, MaxPoolIndices, MaxUnpool, AveragePoolDilated, AffineGrid, MaxRoiPool),
]


@pytest.mark.parametrize("width", [1e-3, 0.3])
@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_intervals_hold_what_inputs_within_yield(spec, width):
    generator = torch.Generator().manual_seed(1)
    for op, tensors in drawn(spec):
        intervals = [
            Interval(x - width, x + width) if x.is_floating_point() else Interval(x, x)
            for x in tensors
        ]
        found = op.interval(*intervals)
        for _ in range(4):
            inner = [jittered(x, width, generator) if x.is_floating_point() else x for x in tensors]
            y = op.torch(*inner)
            for result, interval in zip([y] if isinstance(y, torch.Tensor) else y, found):
                ok = (result >= interval.lo - 1e-9) & (result <= interval.hi + 1e-9)
                assert bool((ok | interval.mask()).all()), op


def test_transposed_convolution_spreads():
    given = {"group": 1, "dilations": (1,), "output_padding": (1,)}
    op = ConvTranspose(strides=(2,), pads=(1, 0), **given)
    y = op.torch(torch.tensor([[[1.0, 10.0]]]), torch.tensor([[[1.0, 2.0, 3.0]]]))
    assert y.flatten().tolist() == [2, 13, 20, 30, 0]
    assert op.type_transfer(t(1, 1, 2), t(1, 1, 3))[0].same(t(1, 1, 5))


def test_positions_count_the_whole_tensor():
    given = {"kernel_shape": (2, 2), "strides": (2, 2), "dilations": (1, 1), "ceil_mode": 0}
    x = ramp(1, 2, 2, 4)
    for order, expected in ((0, [5, 7, 13, 15]), (1, [3, 7, 11, 15])):
        op = MaxPoolIndices(pads=(0, 0, 0, 0), storage_order=order, **given)
        values, indices = op.torch(x)
        assert values.flatten().tolist() == [5, 7, 13, 15]
        assert indices.flatten().tolist() == expected


def test_unpooling_keeps_maxima_only():
    given = {"kernel_shape": (2,), "strides": (2,), "ceil_mode": 0, "shaped": 0}
    op = MaxUnpool(pads=(0, 0), **given)
    assert op.torch(torch.tensor([[[3.0, 1.0, 2.0, 5.0]]])).flatten().tolist() == [3, 0, 0, 5]
    with pytest.raises(ConstraintError):
        op.check(t(1, 1, 5))


def test_norms_of_windows():
    given = {"strides": (1,), "ceil_mode": 0, "dilations": (2,)}
    op = LpPool(kernel_shape=(2,), pads=(0, 0), p=2, **given)
    assert op.torch(torch.tensor([[[3.0, 0.0, -4.0]]])).flatten().tolist() == [5]


def test_wrapping_takes_the_other_end():
    op = Pad(mode="wrap", pads=(2, 1), value=0)
    assert op.torch(ramp(3)).tolist() == [1, 2, 0, 1, 2, 0]
    with pytest.raises(ConstraintError):
        Pad(mode="wrap", pads=(4, 0), value=0).check(t(3))


def test_no_displacement_is_a_convolution():
    given = {"kernel_shape": (3, 2), "strides": (2, 1), "dilations": (1, 2), "pads": (1, 0, 1, 0)}
    op = DeformConv(group=2, offset_group=2, **given)
    x, w = ramp(2, 4, 6, 5).double(), ramp(6, 2, 3, 2).double()
    y = torch.conv2d(x, w, None, (2, 1), (1, 0), (1, 2), 2)
    offset = torch.zeros(2, 24, *y.shape[2:], dtype=torch.float64)
    assert torch.allclose(op.torch(x, w, offset), y)


def test_identity_samples_the_image():
    theta = torch.eye(2, 3, dtype=torch.float64)[None]
    for corners in (0, 1):
        grid = AffineGrid(size=(3, 4), align_corners=corners, dims=2).torch(theta)
        x = ramp(1, 2, 3, 4).double()
        given = {"padding_mode": "zeros", "align_corners": corners}
        assert torch.allclose(GridSample(mode="linear", **given).torch(x, grid), x)
        assert torch.equal(GridSampleNearest(**given).torch(x, grid), x)


def test_regions_leave_the_image():
    op = MaxRoiPool(size=(1, 2), regions=(0, 0, 0, 1, 1, 0, 3, 3, 9, 9), spatial_scale=1.0)
    y = op.torch(ramp(1, 1, 3, 3))
    assert y[:, 0, 0].tolist() == [[3, 4], [0, 0]]


def test_aligned_regions_average_samples():
    given = {"sampling_ratio": 1, "spatial_scale": 1.0, "half_pixel": 1}
    op = RoiAlign(size=(1, 1), **given)
    rois, image = torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([0])
    assert op.torch(ramp(1, 1, 3, 3), rois, image).item() == 0.5 * 1 + 0.5 * 3


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
