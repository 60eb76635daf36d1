"""Attributes at their defaults are left out or written, in the whole model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from nnfuzz.backends.onnxruntime import OnnxRuntime
from onnx import helper, parser
from onnx.reference import ReferenceEvaluator

from nnfuzz.backend.interface import OnnxModel
from nnfuzz.base.packed_values import evaluated
from nnfuzz.vary.rewrite.rewriting import Step, rewritten

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,1,4,4] x) => (float[1,1,4,4] z, float[4,4,1,1] t)
<float[1,1,3,3] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0}> {
  y = Conv <auto_pad = "NOTSET", group = 1, kernel_shape = [3,3], pads = [1,1,1,1], strides = [1,1]> (x, w)
  z = Elu <alpha = 1.0> (y)
  t = Transpose <perm = [3, 2, 1, 0]> (z)
}
"""  # noqa: E501


def written(rule: str, number: int) -> dict[str, set[str]]:
    """The names of attributes by operator, after a step."""
    model = parser.parse_model(MODEL)
    after, steps = rewritten(model.SerializeToString(), [Step(rule, number)])
    made = onnx.load_model_from_string(after)
    onnx.checker.check_model(made, full_check=True)
    assert steps
    return {node.op_type: {a.name for a in node.attribute} for node in made.graph.node}


def test_what_is_implied_is_left_out_and_nothing_else():
    found = [written("defaults_left_out", number) for number in range(12)]
    assert {"Conv": {"pads"}, "Elu": set(), "Transpose": set()} in found
    assert all("pads" in own["Conv"] for own in found)
    assert any("alpha" in own["Elu"] for own in found)  # of others, some


def test_defaults_of_the_schema_are_written():
    model = parser.parse_model(MODEL.replace("<alpha = 1.0>", "").replace("group = 1,", ""))
    after, steps = rewritten(model.SerializeToString(), [Step("defaults_written", 1)])
    conv, elu, _ = onnx.load_model_from_string(after).graph.node
    assert steps and [helper.get_attribute_value(a) for a in elu.attribute] == [1.0]
    assert {a.name: helper.get_attribute_value(a) for a in conv.attribute}["group"] == 1


OPERANDS = """
<ir_version: 8, opset_import: ["" : 18]>
g (float[1,3,4] x) => (float[3,6] y, float s)
<int64[2] b = {0, 0}, int64[2] e = {1, 3}, int64[2] a = {0, 1}, int64[2] o = {1, 1},
 int64[6] q = {0,0,1,0,0,1}, float v = {0.0}, int64[1] i = {0}, int64[2] j = {0, 1}> {
  c = Slice (x, b, e, a, o)
  d = Pad (c, q, v)
  y = Squeeze (d, i)
  s = ReduceMax <keepdims = 0> (y, j)
}
"""
FEWEST = {"Slice": 3, "Pad": 2, "Squeeze": 1, "ReduceMax": 1}
MOST = {"Slice": 5, "Pad": 4, "Squeeze": 2, "ReduceMax": 2}


def test_operands_that_are_implied_are_left_out_and_written_again():
    model = parser.parse_model(OPERANDS)
    before = model.SerializeToString()
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    counts = {}
    for rule in ("defaults_left_out", "defaults_written"):
        for number in range(12):
            after, steps = rewritten(before, [Step(rule, number)])
            made = onnx.load_model_from_string(after)
            onnx.checker.check_model(made, full_check=True)
            for own, other in zip(expected, ReferenceEvaluator(made).run(None, {"x": x})):
                np.testing.assert_array_equal(own, other)
            counts = {node.op_type: len(node.input) for node in made.graph.node}
            if counts == (FEWEST if rule == "defaults_left_out" else MOST):
                break
        assert steps and counts == (FEWEST if rule == "defaults_left_out" else MOST)
        named = {name for node in made.graph.node for name in node.input}
        assert {t.name for t in made.graph.initializer} <= named
        before = after


def test_an_operand_becomes_an_input_that_is_given_its_numbers():
    model = parser.parse_model(OPERANDS)
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    expected = evaluated(model.SerializeToString(), {"x": x})
    given = set()
    for number in range(30):
        after, steps = rewritten(model.SerializeToString(), [Step("operand_as_input", number)])
        made = OnnxModel(after)
        (name,) = made.packed_inputs
        assert steps and made.inputs.keys() == {"x"}
        assert name not in {t.name for t in onnx.load_model_from_string(after).graph.initializer}
        onnx.checker.check_model(after, full_check=True)
        backend = OnnxRuntime()
        program = backend.compile(backend.import_model(OnnxModel(after)), "O3")
        for outputs in (evaluated(after, {"x": x}), program({"x": x})):
            np.testing.assert_array_equal(outputs["y"], expected["y"])
            np.testing.assert_array_equal(outputs["s"], expected["s"])
        given.add(name)
    assert len(given) > 2


@pytest.mark.parametrize("rule", ["defaults_left_out", "defaults_written"])
def test_a_model_without_such_a_place_stays(rule):
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Relu(x) }'
    )
    assert rewritten(model.SerializeToString(), [Step(rule)]) == (model.SerializeToString(), ())
