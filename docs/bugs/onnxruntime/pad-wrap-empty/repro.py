#!/usr/bin/env python3
"""onnxruntime: Pad with mode=wrap raises for an empty tensor

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 9, opset_import: ["" : 19]>
padded (float[0, 3] x) => (float[0, 5] y) <int64[4] p = {0, 1, 0, 1}> {
   y = Pad <mode = "wrap"> (x, p)
}
"""
INPUTS = {"x": np.zeros((0, 3), "float32")}
EXPECTED = np.zeros((0, 5), "float32")


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
    actual = run(model.SerializeToString(), INPUTS, "ORT_DISABLE_ALL")
    print("expected", EXPECTED.shape, "actual", actual.shape)
except Exception as error:
    print(error)
fixed = actual is not None and actual.shape == EXPECTED.shape
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
