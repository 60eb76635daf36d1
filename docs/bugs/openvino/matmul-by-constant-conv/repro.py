#!/usr/bin/env python3
"""openvino: MatMul by a convolution of constants is wrong

Needs openvino 2026.4.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 9, opset_import: ["" : 19]>
product (float[1, 2] x) => (float[1, 1, 2] y)
<float[1, 1, 1, 2] a = {1.0, 2.0}, float[2, 1, 1, 1] b = {2.0, 3.0}, int64[3] s = {1, 2, 2}> {
   c = Conv (a, b)
   w = Reshape (c, s)
   y = MatMul (x, w)
}
"""
INPUTS = {"x": np.array([[1, 4]], "float32")}
EXPECTED = [np.array([[[14, 28]]], "float32")]


def run(model, inputs, level):
    import openvino as ov

    config = {"INFERENCE_PRECISION_HINT": "f32"}
    core = ov.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", config)
    found = compiled(inputs)
    return [found[port] for port in compiled.outputs]


model = parser.parse_model(MODEL)
checker.check_model(model, full_check=True)
fixed = False
try:
    actual = run(model.SerializeToString(), INPUTS, "")
    print("expected", EXPECTED, "actual", actual)
    fixed = all(
        a.shape == b.shape and np.array_equal(a, b)
        for a, b in zip(map(np.asarray, actual), EXPECTED)
    )
except Exception as error:
    print(error)
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
