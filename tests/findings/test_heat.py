"""Heat maps of outputs."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np

from nnfuzz.findings.drawing import drawing, leading_to
from nnfuzz.findings.heat import CELLS, heat_maps
from nnfuzz.ir.view import GraphView, NodeView, ValueView


def shades(maps: str, at: int) -> dict[str, int]:
    """Shade -> number of cells of one of the three maps."""
    svg = ElementTree.fromstring(f"<maps>{maps}</maps>")[at][1]
    return {path.get("class", ""): path.get("d", "").count("M") for path in svg}


def test_the_worst_element_of_a_block_is_shown():
    expected = np.ones((4, 50, 100), np.float32)
    actual = expected.copy()
    actual[2, 17, 61] = 1.5
    maps = heat_maps(expected, actual)
    assert shades(maps, 2) == {"h-0": CELLS * CELLS - 1, "h-1": 1}
    assert sum(shades(maps, 1).values()) == CELLS * CELLS
    assert re.findall(r"<figcaption>(.*?)<", maps)[2] == "outside: up to 0.5"


def test_what_is_not_compared_and_what_is_no_number_have_shades_of_their_own():
    expected, actual = np.float32([1, 2, 3, 4]), np.float32([1, np.nan, 3.1, 9])
    compared = np.array([True, True, True, False])
    maps = heat_maps(expected, actual, compared=compared)
    assert shades(maps, 1) == {"h-unknown": 1, "h-odd": 1, "h-0": 1, "h-8": 1}
    assert shades(maps, 2) == {"h-unknown": 1, "h-odd": 1, "h-0": 1, "h-1": 1}


def test_outputs_of_two_shapes_have_no_maps():
    assert heat_maps(np.array([2**40, 5]), np.array([2**40])) is None


def test_of_a_large_graph_the_part_before_the_wrong_value_is_drawn():
    names = [f"v{i}" for i in range(101)]
    nodes = tuple(NodeView("Relu", (a,), (b,)) for a, b in pairwise(names))
    values = tuple(ValueView(name, "float32", (2,)) for name in names)
    graph = GraphView(values, nodes, ("v0",), (), ("v100",))
    part = leading_to(graph, "v50", 3)
    assert [node.outputs for node in part.nodes] == [("v48",), ("v49",), ("v50",)]
    assert (part.inputs, part.outputs) == (("v47",), ("v50",))
    assert str(drawing(graph, "v50")).count(' g-wrong"') == 1
    assert drawing(graph, "gone") is None
