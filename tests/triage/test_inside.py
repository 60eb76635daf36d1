"""The wrong node inside of an ONNX model that one operator became."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, load_model_from_string, numpy_helper
from onnx.reference import ReferenceEvaluator

from nnfuzz.execute.registry import BackendRegistry
from nnfuzz.execute.runner import BackendRunner
from nnfuzz.experiment.blocking import examine
from nnfuzz.experiment.localise import localise
from nnfuzz.report.finding import Finding
from nnfuzz.report.tracker import tracker_report
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.inside import far_off, first_wrong_node
from tests.reduction.faults import PLUGIN, Fault

C = np.float32([[-1, 2, -3]])
X = np.float32([[0.5, -1.5, 2.5]])


def model() -> bytes:
    """y = ReduceL1(x * Abs(c)): Abs works on a constant."""
    nodes = [
        helper.make_node("Abs", ["c"], ["a"]),
        helper.make_node("Mul", ["x", "a"], ["m"]),
        helper.make_node("ReduceL1", ["m"], ["y"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(C, "c")],
    )
    opset = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def compiler(operator: str, constant: bool = False, alone: bool = True):
    """A compiler that gets an operator wrong, of constants only if so wished, and in models of
    several nodes only if not `alone`.
    """

    def run(model, inputs):
        proto = load_model_from_string(model)
        session = ReferenceEvaluator(proto)
        values = {**session.rt_inits_, **inputs}
        constants = set(session.rt_inits_)
        for node in session.rt_nodes_:
            outputs = node.run(*(values[name] for name in node.input))
            bad = node.onnx_node.op_type == operator and (alone or len(proto.graph.node) > 1)
            if bad and (not constant or constants.issuperset(node.input)):
                outputs = tuple(-3 * x for x in outputs)
            values.update(zip(node.output, outputs))
        return {output.name: values[output.name] for output in proto.graph.output}

    return run


@pytest.mark.parametrize("operator, value", [("Abs", "a"), ("Mul", "m"), ("ReduceL1", "y")])
def test_the_wrong_node_is_named_and_is_wrong_alone(operator, value):
    found = first_wrong_node(model(), {"x": X}, compiler(operator))
    assert (found.operator, found.value) == (operator, value)
    single = load_model_from_string(found.model)
    assert [node.op_type for node in single.graph.node] == [operator]
    assert f"{operator} alone is wrong as well" in found.sentence


def test_a_fault_of_constants_keeps_the_constant():
    found = first_wrong_node(model(), {"x": X}, compiler("Abs", constant=True))
    single = load_model_from_string(found.model)
    assert [t.name for t in single.graph.initializer] == ["c"] and not found.inputs
    assert "[-3.0, -6.0, -9.0] instead of [1.0, 2.0, 3.0]" in found.sentence


def test_a_node_that_is_right_alone_is_named_without_a_model():
    found = first_wrong_node(model(), {"x": X}, compiler("Mul", alone=False))
    assert found.operator == "Mul" and not found.model
    assert found.sentence.endswith("alone it is right")


def test_nothing_is_named_where_every_node_is_right_or_the_model_does_not_run():
    assert first_wrong_node(model(), {"x": X}, compiler("Conv")) is None
    assert first_wrong_node(model(), {"x": X}, lambda model, inputs: None) is None


def test_localisation_names_the_node_inside_of_one_operator():
    registry, config = BackendRegistry.discover([PLUGIN]), CaseConfig(exporter="direct")
    case = Fault("Swish", "many", (("float32", (4, 9)),), 40, {"alpha": 1.0}).case(
        Producer(0, config)
    )
    spec = registry.spec("elements", {"op": "Sigmoid", "rule": "many"})
    with BackendRunner(spec, registry) as runner, ProducerClient(0, config.to_json()) as client:
        (failure,) = examine(case, runner, client.judge).failures
        found = localise(case, failure, runner, client)
    assert (found.operator, found.onnx_operator) == ("Swish", "Sigmoid")
    assert "Sigmoid (" in found.onnx_model and "Mul (" not in found.onnx_model
    assert any("Sigmoid alone is wrong as well" in sentence for sentence in found.evidence)
    finding = Finding(failure, case, (), spec, config.to_json(), localisation=found.to_json())
    report = tracker_report(finding)
    assert report.splitlines()[0].endswith("by Sigmoid of ONNX")
    assert "The wrong node alone:" in report


def test_half_of_the_digits_are_rounding():
    right = np.array([1.0, 1000.0])
    assert not far_off(np.float32([1.0001, 1000.0]), right)
    assert far_off(np.float32([2.0, 1000.0]), right)
    assert not far_off(np.float32([np.nan, np.inf]), np.array([np.nan, 1e300]))
    assert far_off(np.array([1, 2]), np.array([1, 3]))
    assert far_off(np.zeros(2), np.zeros(3))
