"""Quantisation: where rounding is certain, and where either of two neighbours is right."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.integer import ConvInteger, MatMulInteger
from nnfuzz.opspecs.qlinear import QLinearMatMul
from nnfuzz.opspecs.quantize import (
    BlockQuantizeLinear,
    DequantizeLinear,
    DynamicQuantizeLinear,
    QuantizeLinear,
)

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, t

U = 2.0**-24
I8, U8 = DType.INT8, DType.UINT8


def exact(*values: torch.Tensor) -> list[Interval]:
    """Intervals around tensors as the oracle has them: floats in float64."""
    wide = [v.double() if v.is_floating_point() else v for v in values]
    return [Interval(v, v) for v in wide]


def inside(interval: Interval, y: torch.Tensor) -> bool:
    return bool(((interval.lo <= y) & (y <= interval.hi)).all())


def small(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    lo, hi = (0, 200) if dtype is torch.uint8 else (-60, 60)
    return torch.randint(lo, hi, shape, generator=generator).to(dtype)


def test_ties_go_to_the_even_integer_and_results_saturate():
    op = QuantizeLinear(axis=None, to=I8)
    x = torch.tensor([0.25, 0.75, 1.25, -0.25, -0.75, 99.0, -99.0])
    y = op.torch(x, torch.tensor(0.5), torch.tensor(3, dtype=torch.int8))
    assert y.tolist() == [3, 5, 5, 3, 1, 127, -128]
    assert y.dtype is torch.int8


def test_scales_are_spread_over_an_axis_or_over_blocks():
    x = ramp(2, 5)
    axis = QuantizeLinear(axis=-2, to=U8)
    axis.check(t(2, 5), t(2))
    assert axis.torch(x, torch.tensor([1.0, 2.0])).tolist() == [[0, 1, 2, 3, 4], [2, 3, 4, 4, 4]]
    blocks = BlockQuantizeLinear(axis=1, to=U8, block_size=3)
    scale = torch.tensor([[1.0, 2.0], [0.5, 1.0]])
    blocks.check(t(2, 5), t(2, 2))
    assert blocks.torch(x, scale).tolist() == [[0, 1, 2, 2, 2], [10, 12, 14, 8, 9]]
    with pytest.raises(ConstraintError):
        blocks.check(t(2, 5), t(2, 3))


def test_next_to_a_tie_both_neighbours_are_right():
    op = QuantizeLinear(axis=None, to=I8)
    scale, x = torch.tensor(0.3, dtype=torch.float64), torch.tensor([0.75, 0.76], dtype=float)
    (interval,) = op.decided(U, *exact(x, scale))
    assert (interval.lo.tolist(), interval.hi.tolist()) == ([2, 3], [3, 3])
    assert float(op.margins(x, scale)[0][0]) < 1e-9


def test_powers_of_two_divide_exactly():
    (interval,) = QuantizeLinear(axis=None, to=I8).decided(
        U, *exact(ramp(9) / 4, torch.tensor(0.5))
    )
    assert torch.equal(interval.lo, interval.hi)


def test_an_odd_zero_point_may_be_added_before_ties_are_rounded():
    x, scale = torch.tensor([-0.125, 0.1]), torch.tensor(0.25)
    for zero, both in ((1, True), (2, False)):
        intervals = exact(x, scale, torch.tensor(zero, dtype=torch.int8))
        (interval,) = QuantizeLinear(axis=None, to=I8).decided(U, *intervals)
        first = (x / scale + zero).round()
        assert (interval.lo <= first).all() and (first <= interval.hi).all()
        assert (interval.lo != interval.hi).tolist() == [both, False]


def test_reciprocals_and_quotients_lie_in_the_box_and_what_is_further_off_does_not():
    generator = torch.Generator().manual_seed(0)
    op = QuantizeLinear(axis=None, to=I8)
    for _ in range(50):
        scale = torch.rand((), generator=generator) * 0.1 + 0.01
        x = ((torch.rand(400, generator=generator) * 200 - 100).round() + 0.5) * scale
        (interval,) = op.decided(U, *exact(x, scale))
        for v in (x / scale, x * (1 / scale)):
            assert inside(interval, v.round().clamp(-128, 127))
    assert not inside(interval, (x / scale - 1.6).round().clamp(-128, 127))


def test_int32_has_no_zero_point():
    types = t(3, dtype=DType.INT32), t(), t(dtype=DType.INT32)
    DequantizeLinear(axis=None).check(*types[:2])
    with pytest.raises(ConstraintError):
        DequantizeLinear(axis=None).check(*types)


def test_dynamic_quantisation_in_float32_lies_in_the_interval():
    generator = torch.Generator().manual_seed(1)
    op = DynamicQuantizeLinear()
    for shift in (-4.0, 0.0, 4.0):
        x = torch.randn(300, generator=generator) * 3 + shift
        found = op.torch(x)
        intervals = op.decided(U, *exact(x))
        assert inside(intervals[0], found[0]) and inside(intervals[2], found[2])
        assert float((intervals[0].hi != intervals[0].lo).double().mean()) < 0.01
        assert abs(float(found[1]) - float(intervals[1].lo)) <= 4 * U * float(found[1])


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


@pytest.mark.parametrize("columns", [0, 1])
def test_every_way_to_requantise_lies_in_the_interval(columns):
    generator = torch.Generator().manual_seed(3)
    op = QLinearMatMul(columns=columns)
    for _ in range(40):
        a, b = small(generator, 7, 9, dtype=torch.uint8), small(generator, 9, 5)
        size = (5,) if columns else ()
        s, r, out = (torch.rand(n, generator=generator) * 0.2 + 0.01 for n in ((), size, ()))
        out = out * 40
        za, zb = torch.tensor(100, dtype=torch.uint8), torch.zeros(size, dtype=torch.int8)
        zero = torch.tensor(-3, dtype=torch.int8)
        (interval,) = op.decided(U, *exact(a, s, za, b, r, zb, out, zero))
        total = (a.int() - 100) @ b.int()
        fixed = (s.double() * r.double() / out.double() * 2.0**31).round()
        for v in (
            total * (s * r / out),
            total.float() * s * r / out,
            total.double() * fixed / 2.0**31,
            (total * s) * (r * (1 / out)),
        ):
            assert inside(interval, (v.round() - 3).clamp(-128, 127))
        assert inside(interval, op.torch(a, s, za, b, r, zb, out, zero))
        wrong = (total * (s * r / out)).trunc() - 3
        assert not inside(interval, wrong.clamp(-128, 127))


def test_floats_of_8_bits_are_rounded_to_and_saturate():
    op = QuantizeLinear(axis=None, to=DType.FLOAT8_E4M3FN)
    x = torch.tensor([1.0, 1.06, 1.0625, 1000.0, -0.3])
    y = op.torch(x, torch.tensor(1.0))
    assert torch.equal(y, x.clamp(max=448).to(torch.float8_e4m3fn).float())
    assert op.margins(x, torch.tensor(1.0))[0][2] == 0
    with pytest.raises(ConstraintError):
        op.check(t(3), t(), t(dtype=DType.FLOAT8_E4M3FN))
