"""Graphs as modules of PyTorch."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference

from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.emit import emit_model
from nnfuzz.materialize.importing import import_onnx, opaque_nodes
from nnfuzz.materialize.module import execute, tensors
from tests.materialize.test_importing import REGISTRY, read


def test_an_operator_without_a_spec_stays_opaque_with_its_constants():
    text = """m (float[2, 3] x) => (float[2, 2] y) <int64[1] k = {2}> {
        a = Relu(x)
        y, at = TopK(a, k)
    }"""
    graph = read(text, REGISTRY.select(["Relu"]))
    assert [repr(node.op) for node in graph.nodes] == ["Relu", "Opaque<TopK>"]
    again = Graph.from_json(graph.to_json(), REGISTRY.get)
    x = np.array([[1, -2, 3], [6, 5, 4]], np.float32)
    values = execute(again, tensors({again.inputs[0]: x}))
    assert values[again.outputs[0]].tolist() == [[3, 1], [6, 5]]
    model = emit_model(again, {}, 20)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Relu", "TopK"]
    assert opaque_nodes(import_onnx(model, REGISTRY.select(["Relu"]), 20).graph) == ["TopK"]


def test_what_a_graph_cannot_hold_stays_inside_of_an_opaque_node():
    graph = read(
        """m (float[2, 3] x, float[2, 3] z) => (float[2, 3] y, float[K] t) <int64 one = {1}> {
            s = SequenceConstruct(x, z)
            n = SequenceLength(s)
            a = SequenceAt(s, one)
            i = NonZero(a)
            c = ReduceSum<keepdims = 0>(i)
            f = Cast<to = 1>(c)
            g = Cast<to = 1>(n)
            b = Add(a, g)
            y = Add(b, f)
        }"""
    )
    kinds = [repr(node.op) for node in graph.nodes]
    assert kinds[0] == "Opaque<SequenceConstruct, SequenceLength, SequenceAt>"
    assert "Opaque<NonZero, ReduceSum>" in kinds
    model = emit_model(graph, {}, 20)
    onnx.checker.check_model(model, full_check=True)
    fed = {n: np.full((2, 3), v, np.float32) for n, v in zip(graph.inputs, (5.0, 1.0))}
    values = execute(graph, tensors(fed))
    # 1, the length 2, and the sum 9 of 6 positions
    assert values[graph.outputs[-1]].tolist() == [[12.0] * 3] * 2
