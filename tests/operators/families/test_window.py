"""Windows of pools."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.pool import AveragePool, MaxPool

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t


def average(k, pads, strides=(1,), ceil_mode=0, include=0):
    return AveragePool(
        kernel_shape=k, strides=strides, pads=pads, ceil_mode=ceil_mode, count_include_pad=include
    )


def maximum(k, pads, strides=(1,), dilations=(1,), ceil_mode=0):
    return MaxPool(
        kernel_shape=k, strides=strides, pads=pads, ceil_mode=ceil_mode, dilations=dilations
    )


@pytest.mark.parametrize(("include", "first"), [(0, 0.5), (1, 1 / 3)])
def test_padding_counts_only_where_it_is_included(include, first):
    y = average((3,), (1, 0), include=include).torch(ramp(1, 1, 5))
    assert y.flatten().tolist() == pytest.approx([first, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("pads", [(1, 1), (2, 0), (2, 2)])
def test_average_without_padding_matches_a_loop(pads):
    op = average((3,), pads, strides=(2,), ceil_mode=1)
    types = t(1, 1, 7)
    op.check(types)
    x = ramp(1, 1, 7)
    count = op.type_transfer(types)[0].shape[2]
    spans = [(max(0, 2 * i - pads[0]), min(7, 2 * i - pads[0] + 3)) for i in range(count)]
    expected = [x[0, 0, a:b].mean().item() for a, b in spans]
    assert op.torch(x).flatten().tolist() == pytest.approx(expected)


def test_maximum_ignores_padding_in_every_type():
    x = torch.tensor([[[-5, -3, -4]]], dtype=torch.int8)
    assert maximum((2,), (1, 1)).torch(x).flatten().tolist() == [-5, -3, -3, -4]
    y = maximum((3,), (2, 0)).torch(x.half())
    assert y.flatten().tolist() == [-5, -3, -3]


@pytest.mark.parametrize(
    "op",
    [
        maximum((2,), (2, 0)),
        maximum((2,), (1, 0), dilations=(2,)),
        maximum((1,), (0, 0), strides=(3,), ceil_mode=1),
        maximum((4,), (0, 0)),
    ],
    ids=["all padding", "jumps over the input", "starts behind the input", "too large"],
)
def test_windows_without_input_are_refused(op):
    with pytest.raises(ConstraintError):
        op.check(t(1, 1, 1 if op.strides == (1,) else 2))


def test_pooled_values_are_finite():
    for spec in (MaxPool, AveragePool):
        for op, types in solved(spec, DType.FLOAT32, 150):
            y = op.torch(ramp(*types[0].shape))
            assert torch.isfinite(y).all(), op
            assert tuple(y.shape) == op.type_transfer(*types)[0].shape
