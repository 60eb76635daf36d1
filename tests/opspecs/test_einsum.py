from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.einsum import Det, Einsum
from nnfuzz.opspecs.fold import Col2Im

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, t


def test_labels_must_agree_in_size():
    op = Einsum(equation="ij,jk->ki")
    op.check(t(2, 3), t(3, 4))
    assert op.type_transfer(t(2, 3), t(3, 4))[0].same(t(4, 2))
    assert op.terms(ramp(2, 3), ramp(3, 4)) == 3
    with pytest.raises(ConstraintError):
        op.check(t(2, 3), t(1, 4))


def test_products_of_int32_stay_int32():
    x = torch.full((1, 2), 2**30, dtype=torch.int32)
    y = Einsum(equation="ij,ij->i").torch(x, torch.full_like(x, 2))
    assert y.dtype is torch.int32 and y.tolist() == [0]


def test_determinants_have_no_range_where_rows_may_cancel():
    from nnfuzz.operators.intervals import Interval

    x = torch.eye(2).double()
    (interval,) = Det().interval(Interval(x - 0.1, x + 0.1))
    assert interval.lo < 0.9 * 0.9 - 0.01 and interval.hi > 1.1 * 1.1 + 0.01
    assert interval.lo > 0


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_blocks_overlap_and_leave_the_image(dtype):
    op = Col2Im(kernel=(2,), strides=(1,), dilations=(2,), begins=(1,), ends=(0,), image=(3,))
    op.check(t(1, 2, 2, dtype=dtype))
    y = op.torch(torch.tensor([[[1.0, 2.0], [4.0, 8.0]]], dtype=dtype.torch))
    assert y.tolist() == [[[2, 4, 8]]]
