"""The graph and arrays that edits change."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.reduction.passes import PASSES, applied
from nnfuzz.reduction.subject import Inapplicable, Subject
from tests.reduction.conftest import ADD_CLIP


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


def test_indices_may_be_computed_if_they_are_in_range():
    registry = OpRegistry.load()
    x, indices = TensorType(DType.FLOAT32, (4,)), TensorType(DType.INT64, (4,))
    counted = registry.get("Range").from_json(
        {"dtype": {"dtype": "int64"}, "axis": 0, "start": 0, "delta": 1, "source": "computed"}
    )
    gathered = registry.get("Gather").from_json({"axis": 0})
    values = {n: Value(n, t) for n, t in {"x": x, "i": indices, "y": x}.items()}
    nodes = [Node(counted, ("x",), ("i",)), Node(gathered, ("x", "i"), ("y",))]
    graph = Graph(values, nodes, ["x"], [], ["y"])
    given = {"x": np.arange(4, dtype=np.float32)}
    np.testing.assert_array_equal(Subject(graph, given, "direct").values["y"], given["x"])
    counted.start = 1
    with pytest.raises(Inapplicable):
        _ = Subject(graph, given, "direct").values
