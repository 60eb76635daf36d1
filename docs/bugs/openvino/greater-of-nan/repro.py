#!/usr/bin/env python3
"""openvino: Greater and GreaterOrEqual are true of NaN

Needs openvino 2026.4.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 8, opset_import: ["" : 16]>
compared (float[2] a, float[2] b) => (bool[2] y) { y = GreaterOrEqual (a, b) }
"""
INPUTS = [np.array([np.nan, 1], "float32"), np.array([1, np.nan], "float32")]
EXPECTED = np.array([False, False])


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
