"""Foreign models as graphs: what specs describe, what stays opaque, what is refused."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import parser

from nnfuzz.check.legality import lawful
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.symbolic import generate
from nnfuzz.inputs.search import Found, search
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.emit import emit_model
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.materialize.reading import opaque_nodes, read_model
from nnfuzz.materialize.static import UNKNOWN_SIZE, ReadingError
from nnfuzz.spec.registry import OpRegistry

REGISTRY = OpRegistry.load()
FAMILIAR = "Add Mul Relu Concat Conv Flatten Gemm MatMul MaxPool ReduceMean Reshape Slice Softmax"


def read(text: str, registry: OpRegistry = REGISTRY, opset: int = 20) -> Graph:
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')
    return read_model(model, registry, opset)


def test_defaults_and_constant_inputs_become_attributes():
    graph = read(
        """m (float[N, 4, 6] x) => (float[K, 2] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] far = {99}, int64[2] shape = {-1, 2}> {
            t = Transpose(x)
            s = Slice(t, one, far, zero)
            r = ReduceMean(s, zero)
            y = Reshape(r, shape)
        }"""
    )
    assert graph.type(graph.inputs[0]).shape == (UNKNOWN_SIZE, 4, 6)
    assert not graph.weights
    names = [node.op.name for node in graph.nodes]
    assert names == ["Transpose", "Slice", "ReduceMean", "Reshape"]
    assert graph.nodes[0].op.perm == (2, 1, 0)
    assert (graph.nodes[1].op.starts, graph.nodes[1].op.ends) == ((1,), (6,))
    assert graph.nodes[3].op.inferred == 0


def test_weights_of_one_value_keep_it_and_others_are_free():
    graph = read(
        """m (float[2] x) => (float[2] y)
        <float[2] halves = {0.5, 0.5}, float[2] other = {1.0, 3.0}> {
            h = Mul(x, halves)
            y = Add(h, other)
        }"""
    )
    assert list(graph.prescribed.values()) == [(0.5, 0.5)]
    assert len(graph.weights) == 2


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
    assert opaque_nodes(read_model(model, REGISTRY.select(["Relu"]), 20)) == ["TopK"]


def test_an_attribute_that_no_spec_has_keeps_the_node_opaque():
    graph = read(
        "m (float[1, 1, 4] x, float[1, 1, 3] w) => (float[1, 1, M] y) "
        '{ y = Conv<auto_pad = "SAME_LOWER">(x, w) }'
    )
    assert opaque_nodes(graph) == ["Conv"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("m (string[2] x) => (string[2] y) { y = Identity(x) }", "dtype that nnfuzz does not know"),
        ("m (float[2] x) => (int64[1, N] y) { y = NonZero(x) }", "not known before it runs"),
        ("m (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x) }", "is not known"),
        ("m (float[4096, 4096] x) => (float[M, N] y) { y = Relu(x) }", "more than"),
    ],
)
def test_what_cannot_be_read_says_why(text, reason):
    with pytest.raises(ReadingError, match=reason):
        read(text)


def test_our_own_models_come_back_as_they_were():
    registry = REGISTRY.select(FAMILIAR.split())
    config = lawful(GenerateConfig(nodes=6, exporter="direct", motifs=0), registry.specs())
    catalog, compared = Catalog(registry.specs(), config), 0
    for seed in range(12):
        graph = generate(catalog, config, random.Random(seed)).graph
        found = search(graph, random.Random(seed))
        if not isinstance(found, Found):
            continue
        again = read_model(emit_model(graph, found.weights, 20), registry, 20)
        assert not opaque_nodes(again)
        assert [n.op.name for n in again.nodes] == [n.op.name for n in graph.nodes]
        compared += 1
    assert compared >= 10
