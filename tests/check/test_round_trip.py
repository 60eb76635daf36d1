"""What direct emission writes is read again."""

from __future__ import annotations

import pytest

from nnfuzz.operators.registry import OpRegistry
from tests.check.round_trip import round_trips

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
