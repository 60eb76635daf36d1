"""Constants of working dtypes, and numbers that they hold."""

import torch

from nnfuzz.compare.precision import (
    PRECISIONS,
    is_single_integer,
    overflow_masked,
    representable,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval

HALF, DOUBLE = PRECISIONS[DType.FLOAT16], PRECISIONS[DType.FLOAT64]


def test_a_number_is_representable_if_no_bit_is_lost():
    y = torch.tensor([1.0, 1 + 2.0**-10, 1 + 2.0**-11, 0.0, 2.0**-40], dtype=torch.float64)
    assert representable(y, HALF, []).tolist() == [True, True, False, True, False]


def test_a_float64_result_is_representable_if_result_and_operands_fit_float32():
    third = torch.tensor([1 / 3], dtype=torch.float64)
    half = torch.tensor([0.5], dtype=torch.float64)
    assert representable(half, DOUBLE, [Interval(half, half)]).all()
    assert not representable(half, DOUBLE, [Interval(third, third)]).any()


def test_an_interval_is_a_single_integer_only_if_it_is_a_point():
    one, two = torch.ones(2), torch.full((2,), 2.0)
    assert is_single_integer(Interval(one, one))
    assert not is_single_integer(Interval(one, two)) and not is_single_integer(
        Interval(one / 2, one / 2)
    )


def test_elements_that_may_overflow_are_masked():
    ref = torch.tensor([1.0, 65504.0], dtype=torch.float64)
    masked = overflow_masked(Interval(ref - 1, ref + 1), ref, HALF)
    assert masked.any.tolist() == [False, True] and masked.hi.max() <= HALF.greatest
    fine = Interval(ref - 1, ref)
    assert overflow_masked(fine, ref, HALF) is fine
