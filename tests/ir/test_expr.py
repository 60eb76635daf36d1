from __future__ import annotations

import pytest

from nnfuzz.ir.expr import Var, and_, evaluate, maximum, or_, product, variables
from tests.expressions import VARS


@pytest.fixture
def x():
    return Var("x", 1, 8)


def test_arithmetic_on_ints_stays_int():
    assert product([2, 3, 4]) == 24
    assert and_(True, True) is True


def test_neutral_elements_vanish(x):
    assert x + 0 is x
    assert x * 1 is x
    assert x // 1 is x
    assert x * 0 == 0
    assert (x + 3) - 3 is x


def test_known_comparisons_fold(x):
    assert (x >= 1) is True
    assert (x > 8) is False
    assert (x == 9) is False
    assert (x == x) is True
    assert or_(x == 9, x >= 1) is True


def test_undecided_truth_is_an_error(x):
    with pytest.raises(TypeError, match="depends on variables"):
        if x > 3:
            pass


def test_shared_nodes_are_evaluated_once(x):
    e = x
    for _ in range(40):
        e = e + maximum(e, 2)
    assert evaluate(e, {x: 1}) > 2**39
    assert variables(e) == [x]


def test_an_unbound_variable_is_named(x):
    with pytest.raises(KeyError):
        evaluate(x + 1, {})


def test_a_product_divides_by_its_factor(x):
    y = Var("y", 2, 3)
    assert (x * y) // y is x
    assert (x * y) % y == 0


def test_a_divisor_that_may_be_zero_is_refused():
    a, _, _ = VARS
    with pytest.raises(ZeroDivisionError, match="divisor a may be zero"):
        7 // a
