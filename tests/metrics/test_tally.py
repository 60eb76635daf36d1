"""Counts of the features of graphs."""

from __future__ import annotations

from nnfuzz.metrics.measures import measures
from nnfuzz.metrics.tally import Tally
from tests.metrics.hand_made import VOCABULARY, graph


def told(tally, vocabulary=VOCABULARY):
    return {m.name: m.value for m in measures(tally, vocabulary)}


def test_some_operators_alone():
    tally = Tally(["Relu", "Add"])
    tally.add(graph(4))
    found = told(tally, VOCABULARY.only(["Relu", "Add"]))
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
    assert [f["vertices"] for f in (first, again, other)] == [3, 3, 6]
    assert [f["operator-shape"] for f in (first, other)] == [3, 6]
    assert other["vertex diversity"] == 6 / 12 and other["operator-dtype"] == 3
