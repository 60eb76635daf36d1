"""Whether results of one operator agree, and whether its numeric claims hold."""

import numpy as np
import pytest

from nnfuzz.check.questions import Expected, numeric_faults
from nnfuzz.operators.registry import OpRegistry

X = np.array([0.5, 1.0, 2.0], np.float32)


@pytest.fixture
def exp():
    return OpRegistry.load().get("Exp")()


def test_rounding_agrees_and_a_wrong_value_does_not(exp):
    expected = Expected.of(exp, [X])
    exact = np.exp(X.astype(np.float64))
    assert not expected.contradicts([exact.astype(np.float32)])
    assert not expected.contradicts([np.nextafter(exact.astype(np.float32), np.float32(9))])
    wrong = exact.astype(np.float32)
    wrong[1] *= 1.01
    assert expected.contradicts([wrong]).startswith("output 0: 1 of 3 elements differ")


def test_other_numbers_and_types_of_outputs_are_named(exp):
    expected = Expected.of(exp, [X])
    assert expected.contradicts([]) == "0 outputs instead of 1"
    assert expected.contradicts([np.exp(X)[:2]]) == "output 0 is float32[2], not float32[3]"


def test_discrete_results_are_equal_or_wrong():
    add = OpRegistry.load().get("Add")()
    ones = np.ones(2, np.int8)
    expected = Expected.of(add, [ones, ones])
    assert not expected.contradicts([2 * ones]) and expected.contradicts([ones])


def test_claims_of_a_spec_are_held_against_it(exp, monkeypatch):
    expected = Expected.of(exp, [X])
    assert numeric_faults(exp, [X], expected) == []
    monkeypatch.setattr(type(exp), "value_range", lambda self, *ranges: (0.0, 1.0))
    (fault,) = numeric_faults(exp, [X], expected)
    assert "value_range" in fault and "excludes" in fault
