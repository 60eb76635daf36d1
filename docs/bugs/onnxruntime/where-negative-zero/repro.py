#!/usr/bin/env python3
"""onnxruntime: Where gives 0.0 for -0.0

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 8, opset_import: ["" : 16]>
chosen (bool[2] c, float[2] x, float[2] z) => (float[2] y) {
   y = Where (c, x, z)
}
"""
INPUTS = {
    "c": np.array([True, False]),
    "x": np.array([-0.0, 1.0], "float32"),
    "z": np.array([1.0, -0.0], "float32"),
}
EXPECTED = [np.array([-0.0, -0.0], "float32")]


def run(model, inputs, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


model = parser.parse_model(MODEL)
checker.check_model(model, full_check=True)
fixed = False
try:
    actual = run(model.SerializeToString(), INPUTS, "ORT_DISABLE_ALL")
    print("expected", EXPECTED, "actual", actual)
    fixed = all(
        a.shape == b.shape and np.array_equal(a, b) and np.array_equal(np.signbit(a), np.signbit(b))
        for a, b in zip(map(np.asarray, actual), EXPECTED)
    )
except Exception as error:
    print(error)
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
