"""Measures of hand-made graphs, by their definitions."""

from __future__ import annotations

import pytest

from nnfuzz.metrics.measures import boundary_share, measures
from nnfuzz.metrics.tally import Tally
from tests.metrics.hand_made import VOCABULARY, graph


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


def test_boundaries_are_zero_and_one():
    assert boundary_share({"0": 2, "more": 1, "[0 1]": 1}) == 3 / 4
    assert boundary_share({'"SAME_UPPER"': 3}) is None
