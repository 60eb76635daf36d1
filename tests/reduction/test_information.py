"""How many bits a wrong result tells: against agreement by chance."""

import numpy as np

from nnfuzz.compare.envelope import Envelope
from nnfuzz.ir.dtypes import DType
from nnfuzz.reduction.information import bits, differences, enough


def differing(right, actual):
    right, actual = np.array(right), np.array(actual)
    none = np.zeros(right.shape, bool)
    exact = Envelope(DType.of(right.dtype), right, right, right, none)
    return differences({"y": exact}, {"y": actual})


def test_each_distinct_difference_is_shown_once():
    assert differing([1, 2, 3, 3], [1, 3, 4, 4]) == [("integer", "2", "3"), ("integer", "3", "4")]
    assert differing([True, True], [False, False]) == [
        ("bool y[0]", "True", "False"),
        ("bool y[1]", "True", "False"),
    ]
    assert differing([1, 2], [[1, 2]]) == [("form", "[2]", "[1, 2]")]


def test_one_number_that_many_hypotheses_give_is_no_evidence():
    assert not enough(differing([-2], [-1]), 6)  # one too large, and rounded, and divided by 2
    assert not enough(differing([3.5], [0.0]), 6)
    assert not enough(differing([-0.5], [0.5]), 6)  # one too large, and of the opposite sign
    assert not enough(differing([True], [False]), 6)


def test_several_distinct_numbers_are_evidence():
    assert enough(differing([0, 1, 2, 3], [1, 2, 3, 4]), 6)
    assert enough(differing([0.2], [0.7310585786]), 6)
    assert enough(differing([7], [1000]), 6)
    assert enough(differing([0.2, 0.7, 3.1, 5.9], [-0.2, -0.7, -3.1, -5.9]), 6)
    assert enough(differing([True] * 6, [False] * 6), 6)
    assert enough(differing([1, 2], [[1, 2]]), 6)


def test_the_same_number_again_adds_nothing():
    assert bits(differing([5, 5, 5], [6, 6, 6])) == bits(differing([5], [6]))
