"""Integers by way of strings."""

import numpy as np
import onnx
import pytest
from nnfuzz.backends.onnxruntime import OnnxRuntime
from onnx import parser

from nnfuzz.vary.rewrite.rewriting import Step, rewritten

MODEL = """
<ir_version: 8, opset_import: ["" : {opset}]>
g ({type}[{shape}] x) => ({type}[{shape}] y) {{
   h = Identity (x)
   y = Abs (h)
}}
"""


@pytest.mark.parametrize("shape", ["3", "2,3"])
@pytest.mark.parametrize(("opset", "dtype"), [(13, "int64"), (20, "int8"), (22, "int32")])
def test_integers_come_back(opset, dtype, shape):
    text = MODEL.format(opset=opset, type=dtype, shape=shape)
    model, used = parser.parse_model(text).SerializeToString(), set()
    sizes = [int(size) for size in shape.split(",") if size]
    x = np.random.default_rng(0).integers(-128, 128, sizes).astype(dtype)
    x.reshape(-1)[0] = np.iinfo(dtype).max
    for number in range(30):
        after, done = rewritten(model, [Step("through_strings", number)])
        assert done
        onnx.checker.check_model(after, full_check=True)
        used |= {node.op_type for node in onnx.load_from_string(after).graph.node}
        if shape == "3":  # ONNX Runtime 1.31.1 loses strings of matrices in Gather
            backend = OnnxRuntime()
            program = backend.compile(backend.import_model(after), "O0")
            np.testing.assert_array_equal(program({"x": x})["y"], np.abs(x))
    assert len(used - {"Identity", "Abs", "Cast"}) > 1
    assert opset < 20 or {"StringConcat", "RegexFullMatch"} & used


@pytest.mark.parametrize(("opset", "dtype"), [(12, "int64"), (20, "float"), (20, "bool")])
def test_others_have_no_place(opset, dtype):
    text = MODEL.format(opset=opset, type=dtype, shape="2")
    model = parser.parse_model(text).SerializeToString()
    assert rewritten(model, [Step("through_strings")]) == (model, ())
