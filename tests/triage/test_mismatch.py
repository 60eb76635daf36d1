"""What a wrong element was computed from is read in inputs and constants."""

from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.mismatch import largest_operand

BOUND = 1 << 40


def case(op="Max", nodes=1):
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.INT64, [2, 3])], [value("y", TensorProto.INT64, [2, 3])]
    bound = numpy_helper.from_array(np.array([BOUND]), "b")
    made = helper.make_graph([helper.make_node(op, ["x", "b"], ["y"])], "g", *ends, [bound])
    values = (ValueView("x", "int64", (2, 3)), ValueView("y", "int64", (2, 3)))
    graph = GraphView(values, (NodeView(op, ("x",), ("y",)),) * nodes)
    x = np.arange(6).reshape(2, 3)
    model = onnx.ModelProto(graph=made).SerializeToString()
    return TestCase(Numbered(0, 0), graph, model, {"x": x}, {}, {"y": x})


def test_the_largest_finite_float_that_is_read():
    x = np.array([[1.0, -7.5, np.inf], [np.nan, 0.0, 2.0]], np.float32)
    assert largest_operand(replace(case(), inputs={"x": x})) == 7.5
    assert largest_operand(case()) == largest_operand(replace(case(nodes=2), inputs={"x": x})) == 0
