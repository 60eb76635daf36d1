#!/usr/bin/env python3
"""onnxruntime: MatMul of a stack of no matrices and a vector raises

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 7, opset_import: ["" : 13]>
product (float[0, 2, 3] a, float[3] b) => (float[0, 2] y) {
   y = MatMul (a, b)
}
"""
INPUTS = {"a": np.ones((0, 2, 3), "float32"), "b": np.ones(3, "float32")}
EXPECTED = [np.ones((0, 2), "float32")]


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
        a.shape == b.shape and np.array_equal(a, b)
        for a, b in zip(map(np.asarray, actual), EXPECTED)
    )
except Exception as error:
    print(error)
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
