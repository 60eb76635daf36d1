"""Bodies under reduction: fewer steps, simpler steps, and no control flow at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.passes import PASSES, applied
from nnfuzz.reduction.subject import Inapplicable, Subject

ADD_CLIP = {
    "arguments": 2,
    "steps": [["Add", {}, [0, 1]], ["Clip", {"min": -2.5, "max": 4.0}, [2]]],
    "outputs": [3, 0],
}
NEGATION = {"arguments": 2, "steps": [["Neg", {}, [1]]], "outputs": [2, 0]}


@pytest.fixture
def subject():
    """relu(x) goes through an If whose second output is what went in."""
    registry = OpRegistry.load()
    attributes = {"others": 1, "results": 2, "then_branch": ADD_CLIP, "else_branch": NEGATION}
    x, scalar = TensorType(DType.FLOAT32, (2, 3)), TensorType(DType.BOOL, ())
    types = {"x": x, "y": x, "c": scalar, "r": x, "a": x, "b": x, "s": x}
    nodes = [
        Node(registry.get("Relu")(), ("x",), ("r",)),
        Node(registry.get("If").from_json(attributes), ("r", "c", "y"), ("a", "b")),
        Node(registry.get("Tanh")(), ("b",), ("s",)),
    ]
    values = {name: Value(name, type_) for name, type_ in types.items()}
    graph = Graph(values, nodes, ["x", "c"], ["y"], ["a", "s"])
    y = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    return Subject(graph, {"x": y * 3, "y": y, "c": np.array(True)}, "direct")


def test_the_branch_that_is_taken_replaces_the_operator(subject):
    (edit,) = PASSES["inlining"].propose(subject)
    made = applied(subject, [edit])
    assert [n.op.name for n in made.graph.nodes] == ["Relu", "Add", "Clip", "Tanh"]
    assert made.graph.inputs == ["x"] and made.measure() < subject.measure()
    for name in subject.graph.outputs:
        np.testing.assert_array_equal(made.values[name], subject.values[name])
    other = replace(subject, params={**subject.params, "c": np.array(False)})
    assert "Neg" in [n.op.name for n in applied(other, [edit]).graph.nodes]


def test_bodies_lose_steps_and_their_operators_get_simpler(subject):
    found = [e for e in PASSES["attributes"].propose(subject) if e.value[0] == "then_branch"]
    made = [applied(subject, [read(Edit, as_json(e))]) for e in found]
    bodies = [m.graph.nodes[1].op.then_branch for m in made]
    assert {len(body.steps) for body in bodies} == {1, 2}
    assert any(s.op.attributes == {"min": 0.0, "max": 4.0} for b in bodies for s in b.steps)
    assert all(m.measure() < subject.measure() for m in made)


def test_a_body_without_steps_passes_its_arguments_on(subject):
    for _ in range(4):
        edits = [e for e in PASSES["attributes"].propose(subject) if "branch" in e.value[0]]
        for edit in edits:
            try:
                made = applied(subject, [edit])
            except Inapplicable:
                continue
            if made.measure() < subject.measure():
                subject = made
                break
    assert sum(len(b.steps) for b in subject.graph.nodes[1].op.bodies) == 0


def test_inputs_that_an_operator_can_do_without_go(subject):
    edits = list(PASSES["operands"].propose(subject))
    assert [(e.target, e.value) for e in edits] == [("a", 2)]
    made = applied(subject, edits)
    assert made.graph.nodes[1].inputs == ("r", "c") and "y" not in made.params
    assert made.graph.nodes[1].op.then_branch.steps[0].inputs == (0, 0)
    assert made.measure() < subject.measure()


def test_a_body_comes_out_of_a_loop_with_what_it_reads():
    registry = OpRegistry.load()
    x, part = TensorType(DType.FLOAT32, (2, 3)), TensorType(DType.FLOAT32, (3,))
    attributes = {"others": 0, "axis": 0, "out_axis": 0, "reverse": 1, "out_reverse": 0}
    scan = registry.get("Scan").from_json({**attributes, "body": {**ADD_CLIP, "outputs": [3, 0]}})
    types = {"x": x, "s": part, "y": x, "last": part}
    values = {name: Value(name, type_) for name, type_ in types.items()}
    graph = Graph(values, [Node(scan, ("x", "s"), ("y", "last"))], ["x", "s"], [], ["y", "last"])
    given = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "s": np.ones(3, np.float32)}
    subject = Subject(graph, given, "direct")
    first, last = PASSES["hoisting"].propose(subject)
    made = applied(subject, [first])
    assert [n.op.name for n in made.graph.nodes] == ["Add", "Clip"]
    assert made.measure() < subject.measure()
    np.testing.assert_array_equal(made.values[made.graph.outputs[0]], [4, 4, 4])
    state, part = (applied(subject, [last]).params[f"y_{i}"] for i in range(2))
    np.testing.assert_array_equal([state, part], [[4, 4, 4], [0, 1, 2]])
