#!/usr/bin/env python3
"""onnxruntime: DequantizeLinear of int32 in front of a Transpose is quantised to uint8 when optimised

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 9, opset_import: ["" : 19]>
moved (int32[2, 1] q) => (float[1, 2] y) <float s = {1.0}> {
   d = DequantizeLinear (q, s)
   y = Transpose <perm = [1, 0]> (d)
}
"""
INPUTS = {"q": np.array([[-1], [300]], "int32")}
EXPECTED = [np.array([[-1, 300]], "float32")]


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
    actual = run(model.SerializeToString(), INPUTS, "ORT_ENABLE_ALL")
    print("expected", EXPECTED, "actual", actual)
    fixed = all(
        a.shape == b.shape and np.array_equal(a, b)
        for a, b in zip(map(np.asarray, actual), EXPECTED)
    )
except Exception as error:
    print(error)
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
