"""Models of others as test cases: which sizes and constants they are taken with."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from nnfuzz.backend.contract import Backend
from nnfuzz.compare.envelope import envelopes
from nnfuzz.ir.graph import Graph
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import ModelError, TestCase
from nnfuzz.testcase.foreign import case_of_model

REGISTRY = OpRegistry.load()


def read(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')


def all_compared(case: TestCase) -> bool:
    graph = Graph.of(case.graph, REGISTRY.get)
    bounds = envelopes(graph, {**case.inputs, **case.weights})
    return all(own.comparable.all() for own in bounds.values())


SHAPED = read("""m (float[2, 6] x, int64[2] shape, int64 k) => (float[A, B] y) {
    r = Reshape (x, shape)  y = Trilu (r, k)
}""")


@pytest.mark.parametrize("shape, k", [((3, 4), 1), ((6, 2), -1)])
def test_given_inputs_decide_on_shapes_and_are_attributes(shape, k):
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    inputs = {"x": x, "shape": np.array(shape), "k": np.array(k)}
    case = case_of_model(SHAPED, REGISTRY, inputs)
    assert all_compared(case) and case.inputs.keys() == inputs.keys()
    assert np.array_equal(case.expected["y"], np.triu(x.reshape(shape), k))
    assert case.model == SHAPED.SerializeToString()


CHOOSING = read("""m (float[2] x, int64 rate) => (float[N] y) <int64 fast = {16}> {
    c = Equal (rate, fast)
    y = If (c) <then_branch = a () => (float[4] t) { t = Concat <axis = 0> (x, x) },
                else_branch = b () => (float[2] e) { e = Relu (x) }>
}""")


class Zipping(Backend):
    """Returns Python's own lists and dicts, as ONNX Runtime does."""

    name = "zipping"
    levels = ("O0",)

    def versions(self):
        return {}

    def load(self, model):
        return None

    def build(self, module, level):
        return lambda inputs: {"y": [{4: 2, 5: 0}, {4: 4, 5: 3}], "s": [inputs["x"]]}


def test_maps_are_a_matrix_with_a_column_for_each_key():
    """A sequence of an unknown number of tensors is not compared, and is no mistake."""
    model = parser.parse_model("""<ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml" : 1]>
    m (float[n, 2] x) => (seq(map(int64, float)) y, seq(float[n, 2]) s) {
        r = Relu(x)  y = ai.onnx.ml.ZipMap<classlabels_int64s = [5, 4]>(r)  s = SequenceConstruct(r)
    }""")
    x = np.array([[0, 2], [3, 4]], np.float32)
    case = case_of_model(model, REGISTRY, {"x": x})
    assert case.model == model.SerializeToString() and all_compared(case)
    backend = Zipping()
    outputs = backend.compile(backend.import_model(case.model), "O0")({"x": x})
    assert case.expected.keys() == outputs.keys() == {"y"}
    assert np.array_equal(case.expected["y"], x) and np.array_equal(outputs["y"], x)


def test_a_given_integer_chooses_a_branch_of_another_shape():
    x = np.array([-1, 2], np.float32)
    case = case_of_model(CHOOSING, REGISTRY, {"x": x, "rate": np.array(16)})
    assert all_compared(case) and case.expected["y"].tolist() == [-1, 2, -1, 2]
    case = case_of_model(CHOOSING, REGISTRY, {"x": x, "rate": np.array(8)})
    assert all_compared(case) and case.expected["y"].tolist() == [0, 2]
    with pytest.raises(ModelError, match="If"):
        case_of_model(CHOOSING, REGISTRY)


def test_open_dimensions_grow_until_the_model_runs():
    model = read("""m (float[batch, 1, samples] x) => (float[batch, 1, frames] y)
        <float[1, 1, 20] w> {
            y = Conv <kernel_shape = [20], strides = [4]> (x, w)
        }""")
    weight = np.ones((1, 1, 20), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    del model.graph.initializer[:-1]
    case = case_of_model(model, REGISTRY)
    assert all_compared(case) and case.inputs["x"].shape[2] >= 20
