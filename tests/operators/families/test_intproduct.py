"""Products of small integers."""

from __future__ import annotations

import torch
from nnfuzz.opspecs.integer import ConvInteger, MatMulInteger

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from tests.opspecs.samples import ramp, t
from tests.opspecs.test_quantize import inside, small

I8, U8 = DType.INT8, DType.UINT8


def test_integer_products_subtract_the_zero_points_of_columns():
    a, b = ramp(2, 3).to(torch.uint8), ramp(3, 2).to(torch.int8)
    zero = torch.tensor([1, -1], dtype=torch.int8)
    op = MatMulInteger(columns=1)
    op.check(t(2, 3, dtype=U8), t(3, 2, dtype=I8), t(dtype=U8), t(2, dtype=I8))
    y = op.torch(a, b, torch.tensor(2, dtype=torch.uint8), zero)
    assert torch.equal(y, (a.int() - 2) @ (b.int() - zero.int()))
    assert y.dtype is torch.int32


def test_convolutions_are_padded_with_the_zero_point():
    op = ConvInteger(group=1, strides=(1,), dilations=(1,), pads=(1, 1), channels=0)
    x, w = torch.tensor([[[7, 9]]], dtype=torch.uint8), torch.ones(1, 1, 3, dtype=torch.uint8)
    assert op.torch(x, w, torch.tensor(5, dtype=torch.uint8)).tolist() == [[[6, 6]]]


def test_intervals_of_integer_products_hold_what_lies_between():
    generator = torch.Generator().manual_seed(2)
    a, b = small(generator, 5, 6), small(generator, 6, 4)
    up = a + torch.randint(0, 3, a.shape, generator=generator).to(torch.int8)
    (interval,) = MatMulInteger(columns=0).interval(Interval(a, up), Interval(b, b))
    for _ in range(20):
        some = torch.where(torch.rand(a.shape, generator=generator) < 0.5, a, up)
        assert inside(interval, some.int() @ b.int())


def test_heavy_int8_weights_are_out_of_bounds():
    a, light = torch.ones(1, 2, dtype=torch.uint8), torch.full((2, 1), 64, dtype=torch.int8)
    op = MatMulInteger(columns=0)
    assert all(bool((term <= 0).all()) for term in op.domain(a, light))
    assert not all(bool((term <= 0).all()) for term in op.domain(a, -light * 2))
