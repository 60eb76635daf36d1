"""Measures of graphs that are known by hand, and folders side by side."""

from __future__ import annotations

import json

from nnfuzz.ir.features import Features, features
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.metrics.measures import (
    Counted,
    FolderComparison,
    Tally,
    measures,
    of_onnx,
)

VOCABULARY = {"Add", "Relu", "Concat", "Abs"}


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


def test_the_measures_of_isra_by_hand():
    tally = Tally()
    assert set(told(tally).values()) == {0}
    tally.add(graph(4))
    tally.add(graph(4))
    found = told(tally)
    assert found["OTC"] == 3 / 4
    assert found["SEC"] == 3 / 16 and found["DEC"] == 2 / 64
    assert found["SPC"] == 3 / 4
    assert (found["NOO"], found["NOT"], found["NOP"], found["NTR"], found["NSA"]) == (4, 3, 3, 2, 3)


def test_some_operators_alone():
    tally = Tally(["Relu", "Add"])
    tally.add(graph(4))
    found = told(tally, {"Relu", "Add"})
    assert found["OTC"] == 1 and found["operators"] == 3
    assert found["SEC"] == 2 / 4  # Relu -> Add -> Relu


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


def test_the_operators_of_onnx():
    known = of_onnx()
    assert len(known) > 180 and "Max" in known and "Constant" not in known


# Values of two attributes.


def pooled(ceil_mode: int, pad: int) -> Features:
    both = tuple(ValueView(name, "float32", (1, 1, 4)) for name in "xy")
    node = NodeView("Pool", ("x",), ("y",), {"ceil_mode": ceil_mode, "include": pad})
    return features(GraphView(both, (node,), ("x",), (), ("y",)))


def test_values_of_two_attributes_that_never_meet_are_apart():
    tally = Tally()
    for ceil_mode, pad in ((0, 0), (0, 1), (1, 0)):
        tally.add(pooled(ceil_mode, pad))
    assert told(tally)["PAC"] == 3 / 4
    assert [*tally.apart()] == [(1 / 3, "Pool", "ceil_mode=1", "include=1")]
