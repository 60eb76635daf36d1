"""Every attribute of ONNX's operators is set by some model, or a spec says why not."""

from __future__ import annotations

from typing import ClassVar

import pytest

from nnfuzz.operators.operator import operator
from nnfuzz.operators.registry import OpRegistry
from opspecs.reduce import ArgMax
from opspecs.shape import Transpose
from tests.check.reach import attributes_reached, reach_problems


@pytest.fixture(scope="module")
def specs():
    return OpRegistry.load().specs()


@pytest.mark.slow
def test_every_attribute_is_set_now_and_then_or_there_is_a_reason(specs):
    assert list(reach_problems(specs)) == []


def test_an_attribute_that_nobody_sets_is_a_problem():
    class First(ArgMax):
        select_last_index = 0

        def onnx(self, emit, x):
            return emit("ArgMax", x, axis=self.axis, keepdims=self.keepdims)

    (line,) = reach_problems([operator(First)])
    assert line == "ArgMax: attribute select_last_index is never set to anything but its default"


def test_a_reason_for_what_is_set_after_all_is_a_problem():
    class Odd(Transpose):
        name = "Transpose"
        unset: ClassVar = {"perm": "it moves nothing"}

    (line,) = reach_problems([operator(Odd)])
    assert "perm is set, and is declared never to be" in line


def test_what_is_reached_depends_on_the_seed_alone(specs):
    some = [spec for spec in specs if spec.name in ("Conv", "MaxPool", "Cast")]
    assert attributes_reached(some, 3, 20) == attributes_reached(some, 3, 20)
