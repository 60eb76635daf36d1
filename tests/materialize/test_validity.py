"""Models that the checker refuses."""

from __future__ import annotations

from onnx import TensorProto, helper

from nnfuzz.materialize.validity import invalid


def quantized(output_dtype) -> bytes:
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=output_dtype)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, []) for n in ("x", "s")]
    out = helper.make_tensor_value_info("y", output_dtype, [])
    graph = helper.make_graph([node], "g", ends, [out])
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def test_a_dtype_that_an_attribute_may_not_have_makes_a_model_invalid():
    assert not invalid(quantized(TensorProto.INT8))
    assert "unsupported type tensor(float)" in invalid(quantized(TensorProto.FLOAT))
