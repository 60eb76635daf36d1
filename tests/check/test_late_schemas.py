"""What came late to an opset is generated only for compilers whose onnx has it."""

import pytest
from nnfuzz.opspecs.attention import Attention, AttentionWindowed
from nnfuzz.opspecs.pool import GlobalLpPool
from onnx import TensorProto, helper

from nnfuzz.check.late_schemas import LATE, missing, schema_differences, uses
from nnfuzz.check.legality import illegal

WINDOWS = {"left_window_size", "right_window_size"}


def attention(**attributes):
    node = helper.make_node("Attention", ["x", "x", "x"], ["y"], **attributes)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    return helper.make_model(helper.make_graph([node], "", [value], []))


def test_windows_of_attention_came_late():
    late = {d.name for d in schema_differences() if d.change == LATE and d.operator == "Attention"}
    assert late == WINDOWS
    (release,) = {d.release for d in schema_differences() if d.name in WINDOWS}
    assert not missing(release) & {d for d in schema_differences() if d.name in WINDOWS}
    assert {d.name for d in missing("1.22.0")} == WINDOWS
    assert missing(None) == frozenset()


@pytest.mark.parametrize(
    ("attributes", "opset", "found"),
    [({"left_window_size": 2}, 25, True), ({"is_causal": 1}, 25, False), ({}, 23, False)],
)
def test_a_model_is_looked_at_for_late_attributes(attributes, opset, found):
    assert uses(attention(**attributes), missing("1.22.0"), opset) is found
    assert not uses(attention(**attributes), missing("1.23.0"), opset)


def test_signatures_with_late_parts_are_illegal_for_older_releases():
    specs = [AttentionWindowed, Attention, GlobalLpPool]
    always = illegal(specs, 26)
    assert always == illegal(specs, 26, "1.23.2")
    refused = illegal(specs, 26, "1.22.0") - always
    assert {key.partition("(")[0] for key in refused} == {"AttentionWindowed"}
    older = illegal(specs, 26, "0") - always - refused
    assert older == {"GlobalLpPool(bfloat16)->bfloat16"}
