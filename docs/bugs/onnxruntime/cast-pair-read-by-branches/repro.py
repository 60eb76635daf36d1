#!/usr/bin/env python3
"""onnxruntime: Removal of a pair of Casts forgets readers in sub-graphs

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 9, opset_import: ["" : 19]>
casts (bool[2] x, bool c) => (bool[2] y) {
   w = Cast <to = 7> (x)
   n = Cast <to = 9> (w)
   y = If (c) <then_branch: graph = a () => (bool[2] p) { p = Not (n) },
               else_branch: graph = b () => (bool[2] r) { r = Identity (n) }>
}
"""
INPUTS = {"x": np.array([1, 0], bool), "c": np.array(True)}
EXPECTED = np.array([0, 1], bool)


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
    print("expected", EXPECTED, "actual", actual)
except Exception as error:
    print(error)
fixed = actual is not None and np.array_equal(actual, EXPECTED)
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
