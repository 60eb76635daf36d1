"""A node of an ONNX model by itself, with what it reads in the model."""

import numpy as np
import onnx
import pytest
from onnx import parser

from nnfuzz.testcase.case import ModelError
from nnfuzz.testcase.foreign_inputs import single_node

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[2] x, float[1] unused) => (float[8,4] y) <int64[2] shape = {2, 1}> {
  a = Neg(x)
  twice = Concat<axis = 0>(shape, shape)
  halves, rest = Split<axis = 0>(twice)
  times = Add(halves, rest)
  list = SequenceConstruct(a, a)
  b = ConcatFromSequence<axis = 0, new_axis = 1>(list)
  y = Tile(b, times)
}
"""
INPUTS = {"x": np.array([1.0, -2.0], np.float32), "unused": np.zeros(1, np.float32)}


def alone(name):
    model = parser.parse_model(MODEL)
    return single_node(model, INPUTS, name)


def test_it_reads_what_is_computed_before_it_and_keeps_constants():
    model, inputs = alone("y")
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Tile"]
    assert {n: x.tolist() for n, x in inputs.items()} == {"b": [[-1.0, 2.0]] * 2}
    (times,) = model.graph.initializer
    assert onnx.numpy_helper.to_array(times).tolist() == [4, 2]
    assert alone("rest")[1] == {}


@pytest.mark.parametrize("name, why", [("z", "no node"), ("b", "list is no tensor")])
def test_what_is_no_node_on_tensors(name, why):
    with pytest.raises(ModelError, match=why):
        alone(name)


def test_what_the_evaluator_cannot_compute():
    model = parser.parse_model(MODEL)
    with pytest.raises(ModelError, match="reference: "):
        single_node(model, {}, "y")
