#!/usr/bin/env python3
"""onnxruntime: BatchNormalization in training whose running variance is left out dies.

The outputs running_mean and running_var are optional in the operator's schema.

Needs onnxruntime 1.31.1, onnx, numpy; no other file. The process dies while it reproduces; exit
code 0 once it is fixed, 125 where it cannot run.
"""

from __future__ import annotations

import sys

try:
    import numpy as np
    import onnxruntime as ort
    from onnx import parser
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

MODEL = """
<ir_version: 8, opset_import: ["" : 15]>
g (float[2,3] x, float[3] one) => (float[2,3] y, float[3] mean) {
   y, mean, "" = BatchNormalization <training_mode = 1> (x, one, one, one, one)
}"""

session = ort.InferenceSession(
    parser.parse_model(MODEL).SerializeToString(), providers=["CPUExecutionProvider"]
)
inputs = {"x": np.ones((2, 3), "float32"), "one": np.ones(3, "float32")}
print("computing", flush=True)
print(session.run(None, inputs)[1])
