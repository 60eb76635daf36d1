"""Measures of graphs that are known by hand, and folders side by side."""

from __future__ import annotations

import json

import pytest

from nnfuzz.ir.features import Features, features
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.metrics.measures import (
    DEGREES,
    Counted,
    FolderComparison,
    Tally,
    measures,
    of_onnx,
    of_specs,
)
from nnfuzz.operators.registry import OpRegistry

VOCABULARY = {"Add": 1, "Relu": 1, "Concat": 5, "Abs": 1}


def graph(size: int) -> Features:
    """Concat(x, x) -> Relu -> Add(_, _), and a Relu of it that nothing reads."""
    values = [ValueView(name, "float32", (size,)) for name in "xcrab"]
    nodes = (
        NodeView("Concat", ("x", "x"), ("c",), {"axis": 0}),
        NodeView("Relu", ("c",), ("r",)),
        NodeView("Add", ("r", "r"), ("a",)),
        NodeView("Relu", ("a",), ("b",)),
    )
    return features(GraphView(tuple(values), nodes, ("x",), (), ("b",)))


def told(tally, vocabulary=VOCABULARY):
    return {m.name: m.value for m in measures(tally, vocabulary)}


def test_the_eleven_of_isra_by_hand():
    tally = Tally()
    tally.add(graph(4))
    tally.add(graph(4))
    found = told(tally)
    assert found["OTC"] == 3 / 4
    assert found["IDC"] == pytest.approx((1 + 1 + 1 / 5) / 4)
    assert found["ODC"] == (1 + 2 + 1) / 4  # one reader each, but the last Relu has none
    assert found["SEC"] == 3 / 16 and found["DEC"] == 2 / 64
    assert found["SPC"] == 3 / 4
    assert (found["NOO"], found["NOT"], found["NOP"], found["NTR"], found["NSA"]) == (4, 3, 3, 2, 3)


def test_no_graph_at_all():
    assert set(told(Tally()).values()) == {0}


# Counts of the features of graphs.


def test_some_operators_alone():
    tally = Tally(["Relu", "Add"])
    tally.add(graph(4))
    found = told(tally, {"Relu": 1, "Add": 1})
    assert found["OTC"] == 1 and found["operators"] == 3
    assert found["SEC"] == 2 / 4  # Relu -> Add -> Relu


def test_equal_graphs_add_no_vertex_and_others_do():
    tally = Tally()
    tally.add(graph(4))
    first = told(tally)
    tally.add(graph(4))
    again = told(tally)
    tally.add(graph(5))
    other = told(tally)
    assert [4 * f["SPC"] for f in (first, again, other)] == [3, 3, 6]


# Folders side by side, as rows and JSON.


def test_two_folders_are_told_side_by_side():
    one, two = Tally(), Tally()
    one.add(graph(4))
    two.add(graph(5))
    both = FolderComparison(
        [Counted("a<b>", one, {}), Counted("b", two, {"x": "torn"})], VOCABULARY
    )
    rows = {measure.name: figures for measure, figures in both.rows()}
    assert rows["models"] == ["1", "1"]
    assert both.missing() == ["Abs"]
    data = json.loads(json.dumps(both.to_json()))
    first, second = data["folders"]
    assert first["name"] == "a<b>" and second["left_out"] == {"x": "torn"}


# The operators that coverage is measured against.


def test_the_operators_of_onnx():
    known = of_onnx()
    assert len(known) > 180 and known["Max"] == 5 and "Constant" not in known


def test_the_operators_of_specs():
    specs = OpRegistry.load().select(["Add", "Concat"]).specs()
    low, high = next(spec for spec in specs if spec.name == "Concat").arity()
    assert of_specs(specs) == {"Add": 1, "Concat": min(high, DEGREES) - low + 1}
