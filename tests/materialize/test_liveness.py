"""Nodes that no output needs are left out of reduced models."""

import onnx
from onnx import TensorProto, helper

from nnfuzz.materialize.liveness import without_dead_nodes


def model(*nodes):
    """A model of nodes (operator, inputs, outputs, body) from x and the weight w to y."""
    made = [helper.make_node(op, ins, outs, **body) for op, ins, outs, body in nodes]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0])
    graph = helper.make_graph(made, "g", ends[:1], ends[1:], [weight])
    return helper.make_model(graph).SerializeToString()


def test_what_no_output_needs_goes_with_its_weights():
    dead = [("Add", ["x", "w"], ["d"], {}), ("Neg", ["d"], ["e"], {})]
    found = onnx.load_model_from_string(without_dead_nodes(model(*dead, ("Abs", ["x"], ["y"], {}))))
    assert [node.op_type for node in found.graph.node] == ["Abs"]
    assert not found.graph.initializer


def test_what_a_body_reads_stays_and_a_model_without_dead_nodes_is_the_same():
    made = helper.make_node("Neg", ["d"], ["b"])
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, [1])
    bodies = {
        f"{name}_branch": helper.make_graph([made], name, [], [out]) for name in ("then", "else")
    }
    nodes = [("Add", ["x", "w"], ["d"], {}), ("If", ["c"], ["y"], bodies)]
    whole = model(*nodes)
    assert without_dead_nodes(whole) == whole
