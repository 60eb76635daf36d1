from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.constant import (
    Constant,
    ConstantOfShape,
    EyeLike,
    Range,
    RangeUpTo,
    Shape,
    Size,
)

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from tests.opspecs.samples import ramp, t

X = ramp(2, 3, 4)


def test_sizes_of_some_axes():
    assert Shape(start=-2, end=3).torch(X).tolist() == [3, 4]
    assert Shape(start=0, end=1).torch(X).tolist() == [2]
    assert Size().torch(X).tolist() == 24
    assert Size().torch(torch.tensor(1.0)).tolist() == 1


@pytest.mark.parametrize(("axis", "count"), [(None, 24), (-1, 4)])
def test_ranges_are_as_long_as_the_input(axis, count):
    attributes = {"axis": axis, "start": 1, "delta": -3, "source": "computed"}
    integers = Range(dtype=DType.INT16, **attributes)
    assert integers.torch(X).tolist() == [1 - 3 * i for i in range(count)]
    assert Range(dtype=DType.FLOAT32, **attributes).torch(X).tolist()[1] == 0.25
    assert integers.type_transfer(t(2, 3, 4))[0].same(t(count, dtype=DType.INT16))


def test_diagonals():
    eye = EyeLike(dtype=DType.BOOL, k=-1).torch(ramp(3, 2))
    assert eye.tolist() == [[False, False], [True, False], [False, True]]


def test_the_values_of_the_input_do_not_matter():
    unknown = Interval(X, X + 9, torch.ones_like(X, dtype=torch.bool))
    for op in (
        ConstantOfShape(dtype=DType.INT8, number=7, source="computed"),
        Constant(seed=3, style="list"),
        Size(),
    ):
        (interval,) = op.interval(unknown)
        assert interval.exact and interval.any is None


def test_constants_fit_every_dtype():
    op = Constant(seed=1, style="tensor")
    assert op.torch(X).min() < 0 <= op.torch(X.byte()).min()
    assert op.torch(X.bool()).dtype is torch.bool


def test_bounds_of_a_shape_are_clamped():
    assert Shape(start=-9, end=9).torch(X).tolist() == [2, 3, 4]
    for start, end, count in ((2, 1, 0), (-5, -1, 2), (1, 7, 2)):
        op = Shape(start=start, end=end)
        assert len(op.torch(X)) == op.type_transfer(t(2, 3, 4))[0].shape[0] == count


@pytest.mark.parametrize(
    ("closing", "expected"), [("filled", [1, 3, 5, 0]), ("shape", [3]), ("sum", 9)]
)
def test_a_range_up_to_a_computed_limit(closing, expected):
    op = RangeUpTo(start=1, delta=2, size=4, closing=closing)
    assert op.torch(torch.tensor(6)).tolist() == expected
    assert op.type_transfer(t(dtype=DType.INT64))[0].rank == op.torch(torch.tensor(6)).dim()
