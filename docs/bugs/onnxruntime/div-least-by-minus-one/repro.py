#!/usr/bin/env python3
"""onnxruntime: Div of the least integer by -1: the process is killed by SIGFPE

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

The process dies while it reproduces; exit code 0 once it is fixed. ONNX defines no quotient here, so that
any number and any error are right; a division by zero is an error.
"""

import numpy as np
import onnxruntime as ort
from onnx import checker, parser

MODEL = """
<ir_version: 8, opset_import: ["" : 16]>
quotient (int64 a, int64 b) => (int64 y) {
   y = Div (a, b)
}
"""
INPUTS = {"a": np.array(-(2**63), np.int64), "b": np.array(-1, np.int64)}

model = parser.parse_model(MODEL)
checker.check_model(model, full_check=True)
session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
try:
    print(session.run(None, INPUTS))
except Exception as error:
    print(error)
print("fixed")
