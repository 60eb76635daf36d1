from __future__ import annotations

import itertools
import random
from xml.etree import ElementTree

import pytest

from nnfuzz.findings.drawing import MAX_WIDTH, draw, layout, shown_type
from nnfuzz.ir.view import NO_GRAPH, GraphView, ValueView
from tests.findings.graphs import branching, hostile

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return [e.text for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_drawing_shows_operators_attributes_types_and_ends():
    svg = draw(branching())
    root = ElementTree.fromstring(svg)
    assert float(root.get("width")) <= MAX_WIDTH
    shown = texts(svg)
    for text in ("Split", "axis = 1", "Conv", "kernel_shape = [1]", "f32[1, 2, 8]", "x", "w"):
        assert text in shown
    assert shown.count("e") == 1 and "... 2 more" in shown
    hints = [e.text for e in root.iter(f"{SVG}title")]
    assert any("b = 2.5" in hint for hint in hints)
    classes = {e.get("class") for e in root.iter(f"{SVG}rect")}
    assert {"g-input", "g-weight", "g-output", "g-node"} <= classes
    heads = [e for e in root.iter(f"{SVG}path") if e.get("class") == "g-head"]
    assert len(heads) == 9  # one per edge: x; a, w; c, b; d, d; e, b
    assert "prefers-color-scheme:dark" in svg and "<style>" not in draw(branching(), style=False)


def test_hostile_names_stay_text():
    svg = draw(hostile())
    names = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg).iter()}
    assert names == {"svg", "style", "rect", "g", "title", "text", "path"}
    assert "<img" not in svg and "\x1b" not in svg and "\u202e" not in svg


def test_the_smallest_graphs():
    ElementTree.fromstring(draw(NO_GRAPH))
    passed = GraphView((ValueView("x", "bool"),), inputs=("x",), outputs=("x",))
    assert texts(draw(passed)).count("bool[]") == 2


def test_names():
    assert shown_type("uint8", [2]) == "u8[2]" and shown_type("bool", []) == "bool[]"


SEEDS = range(12)


def random_edges(seed):
    dice = random.Random(seed)
    count = dice.randint(1, 25)
    pairs = [(dice.randrange(b), b) for b in range(1, count) for _ in range(dice.randint(0, 3))]
    widths = {key: dice.uniform(20, 200) for key in range(count)}
    return widths, [(a, b, dice.random()) for a, b in dict.fromkeys(pairs)]


@pytest.mark.parametrize("seed", SEEDS)
def test_edges_run_down_and_boxes_keep_their_distance(seed):
    widths, edges = random_edges(seed)
    placed = layout(widths, edges, gap=10)
    level = {key: i for i, layer in enumerate(placed.layers) for key in layer}
    assert set(widths) <= set(level)
    for (source, target, _), route in zip(edges, placed.routes):
        chain = [source, *route, target]
        assert [level[key] for key in chain] == list(range(level[source], level[target] + 1))
    for layer in placed.layers:
        for a, b in itertools.pairwise(layer):
            room = (widths.get(a, 0) + widths.get(b, 0)) / 2 + 10
            assert placed.x[b] - placed.x[a] >= room - 1e-6
    assert min(placed.x[k] - widths.get(k, 0) / 2 for k in placed.x) == pytest.approx(0)


def test_chains_are_straight_and_trees_do_not_cross():
    chain = layout(dict.fromkeys("abcd", 50.0), [("a", "b", 0.5), ("b", "c", 0.5), ("c", "d", 0.5)])
    assert len(set(chain.x.values())) == 1
    tree = layout(dict.fromkeys("vabcd", 9.0), [("v", "c", 0.5), ("a", "d", 0.5), ("b", "c", 0.5)])
    top, bottom = tree.layers
    ends = [bottom.index({"v": "c", "a": "d", "b": "c"}[key]) for key in top if key in "vab"]
    assert ends == sorted(ends)


def test_sources_stand_where_they_enter():
    placed = layout(dict.fromkeys("pqr", 9.0), [("p", "r", 0.9), ("q", "r", 0.1)])
    assert placed.x["q"] < placed.x["p"]
