"""Measures of hand-made graphs, by their definitions."""

from __future__ import annotations

import json

import pytest

from nnfuzz.ir.features import features
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.metrics.comparison import Counted, FolderComparison
from nnfuzz.metrics.measures import boundary_share, measures
from nnfuzz.metrics.patterns import pass_patterns
from nnfuzz.metrics.tally import Tally
from nnfuzz.metrics.vocabulary import Vocabulary, of_onnx

VOCABULARY = Vocabulary({"Add": 1, "Relu": 1, "Concat": 5, "Abs": 1})


def graph(size):
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


def test_equal_graphs_add_no_vertex_and_others_do():
    tally = Tally()
    tally.add(graph(4))
    first = told(tally)
    tally.add(graph(4))
    again = told(tally)
    tally.add(graph(5))
    other = told(tally)
    assert [f["vertices"] for f in (first, again, other)] == [3, 3, 6]
    assert [f["operator-shape"] for f in (first, other)] == [3, 6]
    assert other["vertex diversity"] == 6 / 12 and other["operator-dtype"] == 3


def test_some_operators_alone():
    tally = Tally(["Relu", "Add"])
    tally.add(graph(4))
    found = told(tally, VOCABULARY.only(["Relu", "Add"]))
    assert found["OTC"] == 1 and found["operators"] == 3
    assert found["SEC"] == 2 / 4  # Relu -> Add -> Relu


def test_no_graph_at_all():
    assert set(told(Tally()).values()) == {0}


def test_boundaries_are_zero_and_one():
    assert boundary_share({"0": 2, "more": 1, "[0 1]": 1}) == 3 / 4
    assert boundary_share({'"SAME_UPPER"': 3}) is None


def test_what_passes_take_away_has_the_dtypes_of_the_graph():
    told = {"toy": ["fuse(Concat+Relu)", "fold(Strange)", "sweep"], "other": []}
    assert {key: [n.op for n in nodes] for key, nodes in pass_patterns(told, graph(4)).items()} == {
        ("toy", "fuse", "Concat+Relu", "float32"): ["Concat", "Relu", "Relu"],
        ("toy", "fold", "Strange", ""): [],
        ("toy", "sweep", "", ""): [],
    }


def test_words_of_compilers_are_close_to_those_of_onnx():
    tell = lambda word: {k[3] for k in pass_patterns({"toy": [f"p({word})"]}, graph(4))}  # noqa: E731
    assert tell("relu") == tell("adding") == {"float32"} and tell("gelu") == {""}


def test_the_operators_of_onnx():
    known = of_onnx()
    assert len(known) > 180 and known.degrees["Max"] == 5 and "Constant" not in known.degrees
    assert known.with_(["mine.Op"]).degrees["mine.Op"] == 1


def test_two_folders_are_told_side_by_side():
    one, two = Tally(), Tally()
    one.add(graph(4), {"toy": ["fuse(Relu)", "fuse(Add)"]})
    two.add(graph(5))
    both = FolderComparison(
        [Counted("a<b>", one, {}), Counted("b", two, {"x": "torn"})], VOCABULARY
    )
    rows = {row.measure.name: row.shown for row in both.rows()}
    assert (
        rows["models"] == ("1", "1")
        and rows["passes of toy"] == ("1", None)
        and rows["patterns of toy"] == ("2", None)
    )
    assert both.missing() == ["Abs"]
    data = json.loads(json.dumps(both.to_json()))
    first, second = data["folders"]
    assert first["passes"] == {"toy": {"fuse": 1}} and second["left_out"] == {"x": "torn"}
    assert first["attributes"][0]["values"] == {"0": 1}
    page = both.page()
    assert "a&lt;b&gt;" in page and "<b>" not in page and "torn" in page and "fuse" in page
