from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.scatter import (
    ScatterElements,
    ScatterElementsReduce,
    ScatterND,
    ScatterNDReduce,
    TensorScatter,
)

from nnfuzz.compare.envelope import admitted
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, t

TWICE = torch.tensor([0, 2, -3])


def exact(*tensors):
    return [Interval(x, x) for x in tensors]


def test_elements_that_two_updates_meet_in_are_not_compared():
    """0 and -3 are the same place."""
    op, updates = ScatterElements(axis=0), torch.tensor([7.0, 8.0, 9.0]).double()
    assert op.undefined(*exact(ramp(3).double(), TWICE, updates)).tolist() == [True, False, False]
    (interval,) = admitted(op, [ramp(3).double(), TWICE, updates], [DType.FLOAT32])
    assert interval.mask().tolist() == [True, False, False]
    assert interval.lo[1:].tolist() == [1, 8]


def test_slices_that_two_updates_meet_in_are_not_compared():
    op, indices = ScatterND(depth=1), torch.tensor([[1], [-1]])
    mask = op.undefined(*exact(ramp(2, 2), indices, ramp(2, 2)))
    assert mask.tolist() == [[False, False], [True, True]]


@pytest.mark.parametrize(
    ("reduction", "expected"), [("add", 15), ("mul", 0), ("max", 8), ("min", 0)]
)
def test_reductions_take_what_is_there_and_every_update(reduction, expected):
    op, updates = ScatterElementsReduce(axis=0, reduction=reduction), torch.tensor([7, 5, 8])
    data = torch.tensor([0, 1, 2])
    assert op.torch(data, TWICE, updates)[0] == expected
    assert op.undefined(*exact(data, TWICE, updates)) is None
    nd = ScatterNDReduce(depth=1, reduction=reduction)
    assert nd.torch(data, TWICE.unsqueeze(1), updates)[0] == expected


def test_sums_of_integers_have_no_rounding_error_and_others_grow_with_the_number_of_terms():
    op = ScatterElementsReduce(axis=0, reduction="add")
    data, ones, halves = torch.zeros(2).double(), torch.ones(8).double(), torch.full((8,), 0.3)
    index = torch.zeros(8, dtype=torch.int64)
    u = 2.0**-24
    assert float(op.radius(u, op.torch(data, index, ones), data, index, ones).max()) == 0
    radius = op.radius(u, op.torch(data, index, halves.double()), data, index, halves.double())
    assert radius[0] > 8 * u * 2.4 > radius[1]


def test_the_sign_of_a_product_with_a_factor_around_zero_is_open():
    op = ScatterElementsReduce(axis=0, reduction="mul")
    index = torch.tensor([0])
    data = Interval(torch.tensor([-1.0, 2.0]), torch.tensor([3.0, 2.5]))
    update = torch.tensor([-2.0])
    (interval,) = op.interval(data, Interval(index, index), Interval(update, update))
    assert interval.lo.tolist() == [-6, 2] and interval.hi.tolist() == [6, 2.5]


def test_a_cache_is_written_to_and_wraps_around_where_it_is_circular():
    past, new, start = (
        torch.zeros(2, 3),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([2, 0]),
    )
    op = TensorScatter(axis=1, mode="circular")
    assert op.torch(past, new, start).tolist() == [[2, 0, 1], [3, 4, 0]]
    assert op.torch(past, new).tolist() == [[1, 2, 0], [3, 4, 0]]
    linear = TensorScatter(axis=1, mode="linear")
    types = t(2, 3), t(2, 2), t(2, dtype=DType.INT64)
    assert linear.integer_range(*types)[2] == (0, 1)
    assert op.integer_range(*types)[2] == (0, 2)
    with pytest.raises(ConstraintError):
        linear.check(t(2, 3), t(2, 4))
