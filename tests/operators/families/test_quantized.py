"""Rounding to integers with a scale."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.quantize import (
    BlockQuantizeLinear,
    QuantizeLinear,
)

from nnfuzz.operators.operator import ConstraintError
from tests.operators.families.test_intproduct import I8, U8
from tests.opspecs.samples import ramp, t
from tests.opspecs.test_quantize import U, exact, inside


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
