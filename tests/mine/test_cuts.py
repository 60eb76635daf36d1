from __future__ import annotations

import random

from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.mine.cuts import cuts


def graph(*nodes: tuple[str, str, str], weights=(), prescribed=None) -> GraphView:
    """Nodes as (operator, "inputs", "outputs"), each value one letter."""
    views = tuple(NodeView(op, tuple(read), tuple(made)) for op, read, made in nodes)
    made = {name for node in views for name in node.outputs}
    read = {name for node in views for name in node.inputs} - made
    values = tuple(ValueView(name, "float32", (2, 3)) for name in sorted(read | made))
    inputs = tuple(sorted(read - set(weights)))
    return GraphView(values, views, inputs, tuple(weights), (), prescribed or {})


def found(view: GraphView, fresh=lambda node: [False] * len(node.inputs)):
    return cuts(view, fresh, random.Random(0))


def operators(cut):
    return sorted(node.op for node in cut.part.nodes)


def test_connected_parts_are_cut():
    view = graph(("Relu", "a", "b"), ("Tanh", "b", "c"), ("Erf", "c", "d"), ("Abs", "x", "y"))
    assert sorted(map(operators, found(view))) == [
        ["Erf", "Relu", "Tanh"],
        ["Erf", "Tanh"],
        ["Relu", "Tanh"],
    ]
    assert [operators(cut) for cut in found(view) if cut.whole] == [["Erf", "Relu", "Tanh"]]


def test_names_and_order_make_no_difference():
    one = graph(("Relu", "a", "b"), ("Tanh", "a", "c"), ("Add", "bc", "d"))
    other = graph(("Tanh", "z", "y"), ("Relu", "z", "x"), ("Add", "xy", "w"))
    whole, same = (next(c for c in found(v) if len(c.part.nodes) == 3) for v in (one, other))
    assert whole == same
    swapped = graph(("Relu", "a", "b"), ("Tanh", "a", "c"), ("Add", "cb", "d"))
    assert next(c for c in found(swapped) if len(c.part.nodes) == 3).form != whole.form


def test_what_enters_belongs_to_the_form_and_not_to_the_structure():
    nodes = (("Mul", "ab", "c"), ("Relu", "c", "d"))
    free, weight = found(graph(*nodes)), found(graph(*nodes, weights="b"))
    constant = found(graph(*nodes, weights="b", prescribed={"b": (0.5, 0.5)}))
    assert len({cut.form for cut in (*free, *weight, *constant)}) == 3
    assert len({cut.structure for cut in (*free, *weight, *constant)}) == 1
    assert constant[0].part.prescribed == {"x1": (0.5, 0.5)}


def test_no_value_that_enters_depends_on_one_that_leaves():
    view = graph(("Relu", "a", "b"), ("Tanh", "b", "c"), ("Add", "bc", "d"))
    assert ["Add", "Relu"] not in map(operators, found(view))


def test_nothing_computes_an_index():
    view = graph(("Abs", "i", "j"), ("Gather", "xj", "y"), ("Relu", "y", "z"))
    fresh = lambda node: [node.op == "Gather" and i == 1 for i in range(len(node.inputs))]  # noqa: E731
    assert [operators(cut) for cut in found(view, fresh)] == [["Gather", "Relu"]]


def test_operators_with_bodies_are_left_out():
    body = NodeView("If", ("b",), ("c",), {"then": {"steps": []}})
    plain = graph(("Relu", "a", "b"), ("Tanh", "c", "d"), ("Abs", "d", "e"))
    view = GraphView(plain.values, (plain.nodes[0], body, *plain.nodes[1:]), ("a",), (), ("e",))
    assert [operators(cut) for cut in found(view)] == [["Abs", "Tanh"]]
