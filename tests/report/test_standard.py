"""What a report says of the standard."""

from types import SimpleNamespace

import numpy as np
from onnx import TensorProto, helper

from nnfuzz.report.standard import clauses, reference_value


def finding(node, fault=None):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([node], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    array = np.array([-1.0, 2.0], np.float32)
    case = SimpleNamespace(
        model=model.SerializeToString(),
        fault=fault,
        inputs={"x": array},
        weights={},
        expected={"y": array},
    )
    return SimpleNamespace(case=case)


def wrong(index):
    return SimpleNamespace(output="y", worst=SimpleNamespace(index=index))


LEAKY = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)


def test_a_clause_has_the_version_in_force_and_the_attributes_that_matter():
    assert clauses(finding(LEAKY)) == ["ONNX LeakyRelu-16, attribute alpha"]
    assert clauses(finding(LEAKY, fault="any")) == []


def test_the_reference_computes_the_worst_element():
    assert reference_value(finding(LEAKY), wrong((0,))) == "-0.5"


def test_what_the_reference_cannot_run_has_no_value():
    unknown = helper.make_node("NoSuchOperator", ["x"], ["y"])
    assert reference_value(finding(unknown), wrong((0,))) == ""
    assert clauses(finding(unknown)) == []
