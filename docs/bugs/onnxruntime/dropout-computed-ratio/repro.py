#!/usr/bin/env python3
"""onnxruntime: EliminateDropout lets readers read the ratio where a node computes it

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 7, opset_import: ["" : 13]>
dropped (float[2] x, float ratio) => (float[2] y) {
   r = Abs (ratio)
   d = Dropout (x, r)
   y = Neg (d)
}
"""
INPUTS = {"x": np.array([1, 2], "float32"), "ratio": np.array(0.5, "float32")}
EXPECTED = np.array([-1, -2], "float32")


def run(model, inputs, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


model = parser.parse_model(MODEL)
checker.check_model(model, full_check=True)
actual = None
try:
    actual = run(model.SerializeToString(), INPUTS, "ORT_ENABLE_BASIC")
    print("expected", EXPECTED, "actual", actual)
except Exception as error:
    print(error)
fixed = actual is not None and np.array_equal(actual, EXPECTED)
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
