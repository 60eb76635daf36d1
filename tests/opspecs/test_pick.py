from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.pick import Compress, NonZero, Unique

from nnfuzz.operators.intervals import Interval
from tests.opspecs.samples import t


def test_elements_that_are_not_zero_are_found_and_the_rest_filled_up():
    x = torch.tensor([[0, 4], [5, 0]])
    assert NonZero(size=3).torch(x).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert NonZero(size=1).torch(x).tolist() == [[0], [1]]
    assert NonZero(size=3).type_transfer(t(2, 2))[0].shape == (2, 3)


def test_an_element_that_may_be_zero_hides_all():
    x = torch.tensor([0.0, 1.0, 2.0])
    for spread, hidden in ((0.5, False), (1.5, True)):
        (interval,) = NonZero(size=2).interval(Interval(x, torch.where(x == 1, x + spread, x)))
        assert not interval.mask().any()
        (interval,) = NonZero(size=2).interval(Interval(torch.where(x == 1, x - spread, x), x))
        assert bool(interval.mask().all()) == hidden


def test_what_a_condition_drops_is_made_up_for_by_zeros():
    x, keep = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([False, True])
    assert Compress(axis=1).torch(x, keep).tolist() == [[2, 0], [5, 0]]
    assert Compress(axis=None).torch(x, keep).tolist() == [2, 0]


@pytest.mark.parametrize(
    ("sorted_", "expected"),
    [
        (1, ([1, 3, 0], [2, 0, 0], [1, 1, 0], [1, 2, 0])),
        (0, ([3, 1, 0], [0, 2, 0], [0, 0, 1], [2, 1, 0])),
    ],
)
def test_different_elements_come_with_places_and_counts(sorted_, expected):
    found = Unique(axis=None, sorted=sorted_).torch(torch.tensor([3, 3, 1]))
    assert [y.tolist() for y in found] == list(map(list, expected))


def test_different_slices():
    x = torch.tensor([[1.0, 0.0, 1.0], [2.0, 5.0, 2.0]])
    y, first, which, counts = Unique(axis=1, sorted=1).torch(x)
    assert y.tolist() == [[0, 1, 0], [5, 2, 0]]
    assert (first.tolist(), which.tolist(), counts.tolist()) == ([1, 0, 0], [1, 0, 1], [1, 2, 0])


def test_elements_that_may_be_equal_hide_all():
    x = torch.tensor([1.0, 2.0, 2.0])
    op = Unique(axis=None, sorted=1)
    assert not any(
        b.mask().any() for b in op.interval(Interval(x, torch.where(x == 1, x + 0.5, x)))
    )
    assert all(b.mask().all() for b in op.interval(Interval(x, torch.where(x == 1, x + 1, x))))


def test_the_places_that_are_not_zero_may_be_counted_or_added():
    x = torch.tensor([[0, 4], [5, 0]])
    assert NonZero(size=1, closing="shape").torch(x).tolist() == [2, 2]
    assert NonZero(size=1, closing="sum").torch(x).tolist() == [1, 1]
    (count,) = NonZero(size=1, closing="shape").interval(Interval(x - 1, x + 1))
    assert count.mask().all()
