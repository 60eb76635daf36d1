"""Bits, running products, and casts by example."""

from __future__ import annotations

import math

import pytest
import torch
from nnfuzz.opspecs.bitwise import BitShift
from nnfuzz.opspecs.cast import BitCast, CastLike
from nnfuzz.opspecs.rectifiers import Shrink, ThresholdedRelu
from nnfuzz.opspecs.scan import CumProd

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import t


def test_shifts_fill_with_zeros_and_stay_below_the_width():
    x, y = torch.tensor([255, 1], dtype=torch.uint8), torch.tensor([7, 7], dtype=torch.uint8)
    assert BitShift(direction="LEFT").torch(x, y).tolist() == [128, 128]
    assert BitShift(direction="RIGHT").torch(x, y).tolist() == [1, 0]
    most = torch.tensor([-1, -1])  # 2^64 - 1 in its carrier.
    assert BitShift(direction="RIGHT").torch(most, torch.tensor([63, 0])).tolist() == [1, -1]
    types = t(2, dtype=DType.UINT8), t(2, dtype=DType.UINT8)
    assert BitShift(direction="LEFT").integer_range(*types)[1] == (0, 7)


def test_bits_of_a_float_are_kept_whatever_carries_it():
    op = BitCast(source=DType.FLOAT32, to=DType.INT32)
    for x in (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64)):
        assert op.torch(x).tolist() == [0x3F800000]
    with pytest.raises(ConstraintError):
        BitCast(source=DType.FLOAT32, to=DType.INT64).check(t(2))
    assert all(a.itemsize == out.itemsize for (a,), out in _bindings(BitCast))


def test_the_second_tensor_decides_the_type():
    assert all(binding[1] is out for binding, out in _bindings(CastLike))
    op = CastLike(to=DType.INT32)
    x = torch.tensor([1.7, -1.7])
    assert op.torch(x, torch.zeros(3, dtype=torch.int32)).tolist() == [1, -1]
    with pytest.raises(ConstraintError):
        op.check(t(2), t(2))


def _bindings(spec):
    return [(tuple(binding.values()), out) for binding, out in spec.signatures()]


@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [(0, 0, [1, 2, 6]), (1, 0, [1, 1, 2]), (0, 1, [6, 6, 3]), (1, 1, [6, 3, 1])],
)
def test_running_products_as_in_the_standard(exclusive, reverse, expected):
    op = CumProd(axis=0, exclusive=exclusive, reverse=reverse)
    assert op.torch(torch.tensor([1.0, 2.0, 3.0])).tolist() == expected


def test_the_sign_of_a_running_product_opens_where_a_factor_s_does():
    interval = Interval(
        torch.tensor([2.0, -1.0, 1.0]).double(), torch.tensor([2.0, 1.0, 3.0]).double()
    )
    (found,) = CumProd(axis=0, exclusive=0, reverse=0).interval(interval)
    assert (found.lo.tolist(), found.hi.tolist()) == ([2, -2, -6], [2, 2, 6])


def test_jumps_are_inside_of_the_intervals_of_shrink_and_thresholded_relu():
    interval = Interval(torch.tensor([0.5, -2.0]).double(), torch.tensor([1.5, 2.0]).double())
    (found,) = Shrink(lambd=1.0, bias=2.0).interval(interval)
    assert (found.lo.tolist(), found.hi.tolist()) == ([-1, -1], [0, 1])
    (found,) = ThresholdedRelu(alpha=1.0).interval(interval)
    assert (found.lo.tolist(), found.hi.tolist()) == ([0, 0], [1.5, 2])
    assert Shrink(lambd=1.0, bias=2.0).value_range((-math.inf, 0.5)) == (-math.inf, 1.0)
