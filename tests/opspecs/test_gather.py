from __future__ import annotations

import numpy as np
import pytest
import torch
from nnfuzz.opspecs.gather import GatherElements, GatherND, OneHot, ReverseSequence

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, t


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_elements_count_negative_indices_from_the_back(dtype):
    y = GatherElements(axis=1).torch(ramp(2, 3), torch.tensor([[-1, 0], [1, -3]], dtype=dtype))
    assert y.tolist() == [[2, 0], [4, 3]]


def test_other_axes_of_the_indices_may_be_shorter_but_not_longer():
    short, long_ = (t(n, 9, dtype=DType.INT64) for n in (1, 3))
    GatherElements(axis=1).check(t(2, 3), short)
    with pytest.raises(ConstraintError):
        GatherElements(axis=1).check(t(2, 3), long_)


def test_tuples_of_indices_pair_up_with_batches():
    data, indices = ramp(2, 2, 2), torch.tensor([[1], [-2]])
    assert GatherND(batch_dims=1, depth=1).torch(data, indices).tolist() == [[2, 3], [4, 5]]
    assert GatherND(batch_dims=0, depth=2).torch(data, torch.tensor([[1, 0]])).tolist() == [[4, 5]]
    assert GatherND(batch_dims=0, depth=2).integer_range(t(4, 2), None) == (None, (-2, 1))


@pytest.mark.parametrize("batch_axis", [0, 1])
def test_sequences_are_reversed_up_to_their_length(batch_axis):
    x = ramp(3, 3)
    x = x if batch_axis else x.t()
    y = ReverseSequence(batch_axis=batch_axis).torch(x, torch.tensor([0, 2, 3]))
    y = y if batch_axis else y.t()
    assert y.tolist() == [[0, 4, 8], [3, 1, 5], [6, 7, 2]]


def test_places_out_of_range_are_off():
    op = OneHot(axis=-1, depth=2)
    y = op.torch(torch.tensor([1, -1, -2, 2, -3]), torch.tensor([5, 6]))
    assert y.tolist() == [[5, 6], [5, 6], [6, 5], [5, 5], [5, 5]]


def test_an_index_that_may_round_either_way_makes_either_value_possible():
    off_on = torch.tensor([0.0, 7.0], dtype=torch.float64)
    index = Interval(torch.tensor([0.9, 1.2]), torch.tensor([1.1, 1.3]))
    (interval,) = OneHot(axis=0, depth=2).interval(index, Interval(off_on, off_on))
    assert interval.lo.tolist() == [[0, 0], [0, 7]]
    assert interval.hi.tolist() == [[7, 0], [7, 7]]


def test_masks_move_with_the_elements():
    x, mask = ramp(3).double(), torch.tensor([True, False, False])
    index = torch.tensor([-3, 1])
    (interval,) = GatherElements(axis=0).interval(Interval(x, x + 1, mask), Interval(index, index))
    assert interval.any.tolist() == [True, False]
    assert np.array_equal(interval.hi - interval.lo, [1, 1])
