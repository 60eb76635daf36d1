"""A user's own tolerance, distances, and who agrees with whom."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.compare.criterion import Criterion, CriterionError, distance
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.groups import groups_that_agree
from nnfuzz.ir.dtypes import DType


def around(values, width=0.0, unknown=(), dtype=DType.FLOAT32):
    ref = np.array(values, np.float64)
    mask = np.isin(np.arange(ref.size), unknown)
    return Envelope(dtype, ref, ref - width, ref + width, mask)


def test_a_criterion_is_read_and_shown():
    assert Criterion.parse("rtol=1e-3, atol=1e-5") == Criterion(rtol=1e-3, atol=1e-5)
    assert str(Criterion.parse("ulp=4")) == "ulp=4"
    for text in ("abc", "rtol=x", "ulp=4,ulp=5", "rtol=-1", ""):
        with pytest.raises(CriterionError, match="ulp=4"):
            Criterion.parse(text)


def test_elements_beyond_it_are_counted():
    actual = np.float32([1.0, 2.001, 300.0, np.nan])
    bounds = around([1.0, 2.0, 301.0, np.nan])
    assert Criterion(rtol=1e-2).beyond(bounds, actual) == 0
    assert Criterion(rtol=1e-3).beyond(bounds, actual) == 1
    assert Criterion(atol=1e-2).beyond(bounds, actual) == 1
    assert Criterion(ulp=1).beyond(bounds, actual) == 2
    assert Criterion(rtol=1).beyond(bounds, actual[:2]) == 4
    assert Criterion(rtol=1).beyond(bounds, actual.astype(np.float64)) == 4


def test_an_infinity_is_within_it_where_the_dtype_overflows():
    assert Criterion(rtol=1e-3).beyond(around([1e39, 1.0]), np.float32([np.inf, 1.0])) == 0
    assert Criterion(rtol=1e-3).beyond(around([1e39, 1.0]), np.float32([-np.inf, 1.0])) == 1


def test_the_distance_is_in_units_of_the_largest_element():
    actual = np.float32([1024.0, 1e-20])
    assert distance(around([1024.0, 0.0]), actual) < 1e-10
    assert distance(around([1024.0 + 2**-13, 0.0]), actual) == 1.0
    assert distance(around([5000.0, 0.0], unknown=[0]), actual) > 1e20


def test_arrays_agree_within_the_envelope_or_else_in_half_of_the_digits():
    arrays = {
        "a": np.float32([1.0, 8.0]),
        "b": np.float32([1.0001, 8.0]),
        "c": np.float32([1.0, 8.001]),
        "d": np.float32([1.0, 8.01]),
    }
    assert groups_that_agree(arrays, around([1.0, 8.0], unknown=[1])) == [["a", "c"], ["b"], ["d"]]
    assert groups_that_agree(arrays, around([1.0, 8.0], 0.1)) == [["a", "b", "c", "d"]]
    whole = {"a": np.int64([3]), "b": np.int64([3]), "c": np.int64([4]), "d": np.int32([3])}
    assert groups_that_agree(whole, around([3], dtype=DType.INT64)) == [["a", "b"], ["c"], ["d"]]
