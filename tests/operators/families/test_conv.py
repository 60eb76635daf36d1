"""Convolutions."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.conv import Conv

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t


def test_asymmetric_padding_shifts_the_window():
    op = Conv(group=1, strides=(2,), dilations=(1,), pads=(0, 3))
    x, w = ramp(1, 1, 4), torch.tensor([[[1.0, 10.0]]])
    op.check(t(1, 1, 4), t(1, 1, 2))
    assert op.torch(x, w).flatten().tolist() == [10.0, 32.0, 0.0]
    assert op.type_transfer(t(1, 1, 4), t(1, 1, 2))[0].same(t(1, 1, 3))


def test_groups_must_divide_both_channel_counts():
    op = Conv(group=2, strides=(1,), dilations=(1,), pads=(0, 0))
    op.check(t(1, 4, 5), t(6, 2, 3), t(6))
    for x, w in ((t(1, 4, 5), t(5, 2, 3)), (t(1, 5, 5), t(6, 2, 3)), (t(1, 4, 2), t(6, 2, 3))):
        with pytest.raises(ConstraintError):
            op.check(x, w)


def test_convolutions_vary():
    drawn = list(solved(Conv, DType.FLOAT32, 300))
    assert {x.rank for _, (x, *_) in drawn} == {3, 4, 5}
    assert any(op.group == x.shape[1] > 1 for op, (x, *_) in drawn), "depthwise"
    assert any(op.symmetric() and any(op.pads) for op, _ in drawn)
    assert any(not op.symmetric() for op, _ in drawn)
    assert {len(types) for _, types in drawn} == {2, 3}
