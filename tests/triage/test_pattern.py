"""What several failures have in common."""

from onnx import TensorProto, helper, parser

from nnfuzz.backend.outcome import Stage
from nnfuzz.triage.pattern import (
    as_written,
    coarse_graph,
    from_last_location,
    general_message,
    onnx_type,
    sole_operator,
    sources,
    written_types,
)
from tests.triage.test_cause import FUSED, error, graph, single


def test_what_is_general():
    text = general_message("T.float64 and float32: acos", ["float64"], ["Acos"])
    assert text == "T.<dtype> and float32: <operator>"
    assert general_message("is not of batch_norm", [], ["BatchNormalization", "IsNaN"]) == (
        "is not of <operator>"
    )
    assert sources(FUSED) == ["Relu"] and sources(single("Relu")) == []
    assert {*coarse_graph(single("A", "uint8")).dtypes.values()} == {"integer"}


def test_the_type_of_onnx_that_a_spec_is_a_mode_of():
    assert onnx_type("RoiAlignMax", ["RoiAlign", "Max"]) == "RoiAlign"
    assert onnx_type("BlockDequantizeLinear", ["DequantizeLinear", "Cast"]) == "DequantizeLinear"
    assert onnx_type("Gelu", ["Erf", "Mul"]) == ""


def value(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def test_the_sole_operator_of_a_model():
    constant = helper.make_node("Constant", [], ["c"], value_float=1.0)
    shape = helper.make_node("Shape", ["x"], ["s"])
    add = helper.make_node("Add", ["x", "c"], ["y"])
    for nodes, found in (([constant, shape, add], "Add"), ([add, add], ""), ([constant], "")):
        made = helper.make_graph(nodes, "g", [value("x")], [value("y")])
        assert sole_operator(helper.make_model(made).SerializeToString()) == found
    clip = helper.make_node("Clip", ["x"], ["h"])
    made = helper.make_graph(
        [clip, helper.make_node("RoiAlign", ["h"], ["y"])], "g", [value("x")], [value("y")]
    )
    model = helper.make_model(made).SerializeToString()
    assert sole_operator(model, single("RoiAlignMax")) == "RoiAlign"
    assert sole_operator(model) == sole_operator(model, single("Relu")) == ""


def test_an_operator_of_another_domain_is_another_one():
    head = '<ir_version: 8, opset_import: ["a.b" : 1]> g (float[2] x) => (float[2] y) '
    for name, known in (("Gelu", "a.b.Gelu"), ("BiasGelu", "BiasGelu")):
        model = parser.parse_model(f"{head} {{ y = a.b.{name} (x) }}").SerializeToString()
        assert sole_operator(model, single(f"a.b.{name}")) == known


def test_the_operator_of_onnx_that_computes_a_value():
    def model(*nodes):
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
        made = helper.make_graph([*nodes], "g", ends[:1], ends[1:])
        return helper.make_model(made).SerializeToString()

    ours = graph(("Compress", "x", "h"), ("SplitToSequence", "h", "y"))
    split = helper.make_node("SplitToSequence", ["h"], ["s"])
    joined = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    for last, found in (("Reshape", {}), ("Slice", {}), ("Where", {"h": "Where"})):
        moved = helper.make_node(last, ["x"], ["h"])
        told = written_types(model(moved, split, joined), ours)
        assert told == found | {"y": "ConcatFromSequence"}
        called = as_written(ours, told).operators
        assert called == (found.get("h", "Compress"), "ConcatFromSequence")


def test_a_native_function_in_a_message_is_the_cause_whatever_the_operator():
    def said(op, instance, stage=Stage.EXECUTE):
        where = f"quantize.cc void ort::Prepare(const Shape&) [with T = {instance}]"
        return error(single(op), f"{stage}: while running {op} node. {where} bad block", stage)

    assert said("Quantize", "float") == said("Dequantize", "double")
    assert said("Quantize", "float") == said("Quantize", "float", Stage.COMPILE)
    assert from_last_location("while running Quantize node") == ""
