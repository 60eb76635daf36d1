"""Attributes at their defaults are left out or written, in the whole model."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper, parser

from nnfuzz.rewrite.rewriting import Step, rewritten

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
    found = [written("every_default_left_out", number) for number in range(12)]
    assert {"Conv": {"pads"}, "Elu": set(), "Transpose": set()} in found
    assert all("pads" in own["Conv"] for own in found)
    assert any("alpha" in own["Elu"] for own in found)  # of others, some


def test_defaults_of_the_schema_are_written():
    model = parser.parse_model(MODEL.replace("<alpha = 1.0>", "").replace("group = 1,", ""))
    after, steps = rewritten(model.SerializeToString(), [Step("every_default_written", 1)])
    conv, elu, _ = onnx.load_model_from_string(after).graph.node
    assert steps and [helper.get_attribute_value(a) for a in elu.attribute] == [1.0]
    assert {a.name: helper.get_attribute_value(a) for a in conv.attribute}["group"] == 1


@pytest.mark.parametrize("rule", ["every_default_left_out", "every_default_written"])
def test_a_model_without_such_a_place_stays(rule):
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Relu(x) }'
    )
    assert rewritten(model.SerializeToString(), [Step(rule)]) == (model.SerializeToString(), ())
