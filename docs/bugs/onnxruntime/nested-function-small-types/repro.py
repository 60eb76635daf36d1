#!/usr/bin/env python3
"""onnxruntime: Functions that call functions take no 4-bit integers and no 8-bit floats

Needs onnxruntime 1.31.1, onnx, numpy and ml_dtypes; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import ml_dtypes
import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
nested (float8e5m2 x) => (float y) { y = local.outer (x) }
<domain: "local", opset_import: ["" : 21, "local" : 1]> outer (a) => (b) { b = local.inner (a) }
<domain: "local", opset_import: ["" : 21]> inner (c) => (d) { d = Cast <to = 1> (c) }
"""
EXPECTED = np.array(2, "float32")


def run(model, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    x = np.array(2, ml_dtypes.float8_e5m2).view("uint8")
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x, 19)
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "cpu")
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()[0]


model = parser.parse_model(MODEL)
checker.check_model(model, full_check=True)
actual = None
try:
    actual = run(model.SerializeToString(), "ORT_DISABLE_ALL")
    print("expected", EXPECTED, "actual", actual)
except Exception as error:
    print(error)
fixed = actual is not None and np.array_equal(actual, EXPECTED)
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
