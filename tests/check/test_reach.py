"""Every attribute is set by some model, and what is written is read again."""

from __future__ import annotations

from typing import ClassVar

import pytest

from nnfuzz.operators.operator import operator
from nnfuzz.operators.registry import OpRegistry
from opspecs.reduce import ArgMax
from opspecs.shape import Transpose
from tests.check.reach import attributes_reached, reach_problems
from tests.check.round_trip import round_trips


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


REGISTRY = OpRegistry.load()
SOME_LOST = frozenset(
    """Attention AttentionWindowed ConstantOfShape Range Constant Col2Im OneHot LessOrEqual
    RangeUpTo MelWeightMatrix Unique RNN GRU LSTM ResizeNearest ResizeLinear RoiAlign RoiAlignMax
    MaxRoiPool ConcatFromSequence SequenceAt SplitToSequence NonMaxSuppression""".split()
)
"""Operators of which some form comes back with less to compare than before."""


OWN = [spec.name for spec in REGISTRY.specs() if spec.onnx_domain != "com.microsoft"]
"""Nodes of com.microsoft are not read: onnx has no schemas of them."""


@pytest.mark.parametrize("name", [name for name in OWN if name not in SOME_LOST])
def test_what_is_written_says_as_much_when_it_is_read(name):
    trips = list(round_trips(REGISTRY.get(name), REGISTRY, 2))
    assert trips
    assert not [str(trip) for trip in trips if not trip.compared]


@pytest.mark.parametrize("name", ["Pad", "Gather", "MatMulInteger", "QuantizeLinear"])
def test_the_attributes_are_those_that_were_written(name):
    """But for a Pad that wraps below opset 19, which is composed of others."""
    trips = list(round_trips(REGISTRY.get(name), REGISTRY, 4))
    composed = [t for t in trips if t.opset < 19 and t.instance.op.attributes.get("mode") == "wrap"]
    assert trips and all(trip.itself for trip in trips if trip not in composed)
