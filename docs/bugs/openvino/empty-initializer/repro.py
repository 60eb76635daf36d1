#!/usr/bin/env python3
"""openvino: An initializer with a dimension of 0 becomes a scalar

Needs openvino 2026.4.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 7, opset_import: ["" : 13]>
empty (float[1, 2] x) => (float[1, 2] y)
<float[3, 0] e = {}, int64[1] zero = {0}, int64[1] one = {1}> {
   s = Slice (e, zero, one, zero)
   y = Concat <axis = 1> (x, s)
}
"""
INPUTS = [np.array([[1, 2]], "float32")]
EXPECTED = np.array([[1, 2]], "float32")


def run(model, inputs):
    import openvino as ov

    core = ov.Core()
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(model), "CPU", config)
    return [*compiled(inputs).values()][0]


model = parser.parse_model(MODEL)
checker.check_model(model, full_check=True)
actual = None
try:
    actual = run(model.SerializeToString(), INPUTS)
    print("expected", EXPECTED, "actual", actual)
except Exception as error:
    print(error)
fixed = actual is not None and np.array_equal(actual, EXPECTED, equal_nan=EXPECTED.dtype.kind == "f")
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
