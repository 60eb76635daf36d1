"""A test case by hand: y = (x + s) * w, with a scalar input."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from nnfuzz.ir.view import GraphView
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered

X = np.arange(3, dtype=np.float32)
S = np.array(0.5, np.float32)
W = np.array([1, 2, 3], np.float32)
GRAPH = GraphView.from_json(
    {
        "schema": 1,
        "values": [
            ["x", "float32", [3]],
            ["s", "float32", []],
            ["w", "float32", [3]],
            ["h", "float32", [3]],
            ["y", "float32", [3]],
        ],
        "nodes": [
            {"op": "Add", "attributes": {}, "inputs": ["x", "s"], "outputs": ["h"]},
            {"op": "Mul", "attributes": {}, "inputs": ["h", "w"], "outputs": ["y"]},
        ],
        "inputs": ["x", "s"],
        "weights": ["w"],
        "outputs": ["y"],
    }
)


def model_of(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()


def model() -> bytes:
    return model_of(
        [helper.make_node("Add", ["x", "s"], ["h"]), helper.make_node("Mul", ["h", "w"], ["y"])],
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(W, "w")],
    )


def case() -> TestCase:
    return TestCase(
        Numbered(7, 3), GRAPH, model(), {"x": X, "s": S}, {"w": W}, {"y": (X + S) * W}, "direct", 18
    )
