#!/usr/bin/env python3
"""onnxruntime: MatMul of a float16 constant and a transposed operand dies when optimised: SIGSEGV

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, or SIGSEGV, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 9, opset_import: ["" : 19]>
product (float16[2, 2] x) => (float16[1, 1, 2] y) <float16[1, 2] w = {0, 0}, int64[3] s = {1, 2, 2}> {
   t = Transpose <perm = [1, 0]> (x)
   r = Reshape (t, s)
   y = MatMul (w, r)
}
"""
INPUTS = {"x": np.ones((2, 2), "float16")}
EXPECTED = [np.zeros((1, 1, 2), "float16")]


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
