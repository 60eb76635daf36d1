#!/usr/bin/env python3
"""onnxruntime: Inlining of an If with a constant condition inside of another one crashes

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, or SIGSEGV, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 9, opset_import: ["" : 19]>
nested (float x) => (float y) <bool t = {1}> {
   y = If (t) <then_branch: graph = a () => (float p) {
      p = If (t) <then_branch: graph = b () => (float q) <int64 zero = {0}> {
         q = Loop (zero, "", x) <body: graph = l (int64 i, bool c, float s) => (bool d, float e) {
            d = Identity (c)
            e = Identity (x)
         }>
      }, else_branch: graph = f () => (float r) { r = Neg (x) }>
   }, else_branch: graph = h () => (float u) { u = Abs (x) }>
}
"""
INPUTS = {"x": np.array(3, "float32")}
EXPECTED = np.array(3, "float32")


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
