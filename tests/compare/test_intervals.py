"""Combinators: what they return contains the function's values, and is tight where it can be."""

from __future__ import annotations

import math

import pytest
import torch

from nnfuzz.operators import intervals, rounding
from nnfuzz.operators.intervals import Interval


def interval(lo, hi, mask=None) -> Interval:
    lo = torch.tensor(lo, dtype=torch.float64)
    hi = torch.tensor(hi, dtype=torch.float64)
    return Interval(lo, hi, None if mask is None else torch.tensor(mask))


def exact(values) -> Interval:
    values = torch.tensor(values, dtype=torch.float64)
    return Interval(values, values)


def ends(b: Interval) -> list[tuple[float, float]]:
    return list(zip(b.lo.reshape(-1).tolist(), b.hi.reshape(-1).tolist()))


def test_exact_intervals_stay_one_object():
    a = exact([1.0, -2.0])
    for found in (
        intervals.monotone(torch.exp, (1,), a),
        intervals.corners(torch.mul, a, exact([3.0, 4.0])),
        intervals.even(torch.abs, a),
        intervals.periodic(torch.sin, a, math.pi / 2),
        intervals.linear(torch.matmul, a, exact([3.0, 4.0]), weights=(0, 1)),
    ):
        assert found.exact
        assert found.any is None


def test_monotone_takes_each_end_by_its_sign():
    found = intervals.monotone(torch.sub, (1, -1), interval([1.0], [2.0]), interval([10.0], [20.0]))
    assert ends(found) == [(-19.0, -8.0)]


def test_corners_of_a_product_and_of_a_square():
    a, b = interval([-1.0, 2.0], [3.0, 4.0]), interval([-5.0, 5.0], [2.0, 6.0])
    assert ends(intervals.corners(torch.mul, a, b)) == [(-15.0, 6.0), (10.0, 24.0)]
    same = intervals.corners(torch.mul, a, a)
    assert ends(same)[1] == (4.0, 16.0)


def test_even_function_has_its_least_value_inside():
    found = intervals.even(torch.cosh, interval([-1.0, 1.0], [2.0, 2.0]), 1.0)
    assert ends(found)[0] == (1.0, math.cosh(2))
    assert ends(found)[1] == (math.cosh(1), math.cosh(2))


@pytest.mark.parametrize(
    ("lo", "hi", "expected"),
    [
        (0.0, 0.5, (0.0, math.sin(0.5))),
        (1.0, 2.0, (math.sin(1.0), 1.0)),
        (4.0, 5.0, (-1.0, math.sin(4.0))),
        (-10.0, 10.0, (-1.0, 1.0)),
    ],
)
def test_sine_knows_its_extrema(lo, hi, expected):
    found = intervals.periodic(torch.sin, interval([lo], [hi]), math.pi / 2)
    assert ends(found)[0] == pytest.approx(expected, abs=1e-15)


def test_linear_is_tight_for_a_single_uncertain_input():
    weights = exact([[1.0, -2.0], [0.5, 0.0]])
    x = interval([[1.0, 1.0]], [[2.0, 3.0]])
    found = intervals.linear(torch.matmul, x, weights, weights=(0, 1))
    assert found.lo.tolist() == [pytest.approx([1.5, -4.0], abs=1e-12)]
    assert found.hi.tolist() == [pytest.approx([3.5, -2.0], abs=1e-12)]


def test_linear_contains_products_of_uncertain_matrices():
    torch.manual_seed(0)
    a, b = torch.randn(3, 4).double(), torch.randn(4, 2).double()
    ra, rb = torch.rand(3, 4).double(), torch.rand(4, 2).double()
    found = intervals.linear(
        torch.matmul, Interval(a - ra, a + ra), Interval(b - rb, b + rb), weights=(0, 1)
    )
    for _ in range(50):
        x = a + ra * (torch.randint(0, 2, ra.shape) * 2 - 1)
        y = b + rb * (torch.randint(0, 2, rb.shape) * 2 - 1)
        assert bool(((x @ y >= found.lo) & (x @ y <= found.hi)).all())


def test_a_masked_factor_masks_even_where_the_other_one_is_zero():
    a = interval(
        [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]], [[True, False], [False, False]]
    )
    found = intervals.linear(torch.matmul, a, exact([[0.0], [1.0]]), weights=(0, 1))
    assert found.any.tolist() == [[True], [False]]


def test_a_masked_bias_masks_its_column_only():
    bias = interval([5.0, 6.0], [5.0, 6.0], [True, False])
    found = intervals.linear(
        lambda x, w, b: x @ w + b, exact([[1.0]]), exact([[2.0, 3.0]]), bias, weights=(0, 1)
    )
    assert found.any.tolist() == [[True, False]]


def test_uncertain_masks_numbers_and_opens_booleans():
    a = Interval(torch.tensor([1, 2]), torch.tensor([1, 3]))
    found = intervals.uncertain(torch.add, a, Interval(a.lo, a.lo))
    assert found.lo.tolist() == [2, 4]
    assert found.any.tolist() == [False, True]
    flags = Interval(torch.tensor([True, False]), torch.tensor([True, True]))
    other = torch.tensor([True, True])
    found = intervals.uncertain(torch.logical_xor, flags, Interval(other, other))
    assert (found.lo.tolist(), found.hi.tolist()) == ([False, False], [False, True])


def test_magnitudes_reach_zero_inside():
    least, most = interval([-1.0, 2.0], [3.0, 4.0]).magnitudes()
    assert (least.tolist(), most.tolist()) == ([0.0, 2.0], [3.0, 4.0])


def test_sum_radius_grows_with_the_terms_and_is_infinite_where_sums_overflow():
    u, s = 2.0**-11, torch.tensor([1.0, 70000.0], dtype=torch.float64)
    few, many = (rounding.sum_radius(u, k, s) for k in (2, 20))
    assert few[0] < many[0] < 32 * u
    assert math.isinf(many[1])
    assert rounding.sum_radius(u, 8, torch.zeros(1, dtype=torch.float64)).tolist() == [0.0]


def test_nothing_is_known_behind_an_operator_without_an_interval():
    from nnfuzz.operators.operator import OpSpec

    class Odd(OpSpec):
        def torch(self, x):
            return x.sum().reshape(1)

    (known,) = Odd().interval(exact([1.0, 2.0]))
    (unknown,) = Odd().interval(interval([1.0, 2.0], [1.0, 2.5]))
    assert known.any is None
    assert unknown.any.tolist() == [True]
