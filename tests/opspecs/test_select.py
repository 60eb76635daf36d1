from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.select import TopK

from nnfuzz.spec.intervals import Box


def top(k, **attributes):
    return TopK(**{"axis": 0, "k": k, "largest": 1, "sorted": 1, **attributes})


@pytest.mark.parametrize(
    ("attributes", "values", "places"),
    [
        ({}, [3, 3, 2], [1, 3, 0]),
        ({"largest": 0}, [1, 2, 2], [2, 0, 4]),
        ({"sorted": 0}, [2, 3, 3], [0, 1, 3]),
    ],
)
def test_of_equal_elements_the_first_comes_first(attributes, values, places):
    found = top(3, **attributes).torch(torch.tensor([2, 3, 1, 3, 2]))
    assert [x.tolist() for x in found] == [values, places]


@pytest.mark.parametrize("sorted_", [0, 1])
def test_only_places_that_rounding_can_not_turn_over_are_known(sorted_):
    """The second and the third may change places, the first and the last two may not."""
    lo = torch.tensor([9.0, 5.0, 5.05, 1.0, 1.0]).double()
    hi = torch.tensor([9.1, 5.1, 5.15, 1.0, 1.0]).double()
    _, places = top(4, sorted=sorted_).interval(Box(lo, hi))
    known = (places.lo == places.hi) & ~places.mask()
    assert known.tolist() == ([True] * 4 if not sorted_ else [True, False, False, True])
    _, places = top(2, sorted=sorted_).interval(Box(lo, hi))
    known = (places.lo == places.hi) & ~places.mask()
    assert known.tolist() == ([False, False] if not sorted_ else [True, False])
