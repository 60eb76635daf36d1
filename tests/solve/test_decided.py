"""A store whose variables get their values at once."""

import random

from nnfuzz.ir.expr import Var
from nnfuzz.operators.draw import Sizes
from nnfuzz.solve.decided import DecidedStore, EagerDraw


def store():
    return DecidedStore(random.Random(1), Sizes(), eager=False)


def test_variables_get_values_that_satisfy_their_constraints():
    x, y = Var("x", 1, 9), Var("y", 1, 9)
    decided = store()
    assert decided.extend([x + y == 10, x > y], [x, y], lambda env, values: True)
    assert decided.env[x] + decided.env[y] == 10 and decided.env[x] > decided.env[y]


def test_what_cannot_hold_or_is_not_accepted_changes_nothing():
    x = Var("x", 1, 9)
    decided = store()
    assert not decided.extend([x > 9], [x], lambda env, values: True)
    assert not decided.extend([False], [], lambda env, values: True)
    assert not decided.extend([x > 3], [x], lambda env, values: False)
    assert decided.env == {}


def test_sizes_come_again_where_they_are_admitted() -> None:
    draw = EagerDraw(random.Random(1), Sizes(again=0.5))
    sizes = [draw.var("d", 1, 1000) for _ in range(200)]
    again = sum(size in sizes[max(0, i - 20) : i] for i, size in enumerate(sizes))
    assert 60 < again < 160
    assert all(draw.var("d", 2000, 3000) >= 2000 for _ in range(20))
