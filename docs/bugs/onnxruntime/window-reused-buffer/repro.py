#!/usr/bin/env python3
"""onnxruntime: A window whose size is computed gets a buffer of another size

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
window (int32[1] t, float[1,30] x) => (float[1] y, int64[1,61] z)
<float[1] one = {1}, float[30] w = {ONES}, int64 i1 = {1},
 int64[1] last = {-1}, int64[2] shape = {1,61}, int64[1] from = {0}, int64[1] to = {61}, int64[1] axis = {1}> {
   s = Shape (x)
   u = Unsqueeze (s, last)
   q = Squeeze (u, last)
   n = Gather (q, i1)
   b = BlackmanWindow (n)
   p = Mul (x, b)
   l = NegativeLogLikelihoodLoss <reduction = "none"> (p, t, w)
   a = LeakyRelu (l)
   r = ReduceLogSumExp (a, last)
   m = Mul (r, one)
   y = Add (m, one)
   sn = Sin (one)
   nz = NonZero (sn)
   c = ConstantOfShape <value = int64[1] {0}> (shape)
   cc = Concat <axis = 1> (nz, c)
   sl = Slice (cc, from, to, axis)
   z = Reshape (sl, shape)
}
""".replace("ONES", ", ".join(["1"] * 30))
INPUTS = {"x": np.ones((1, 30), "float32"), "t": np.zeros(1, "int32")}
EXPECTED = (1,), (1, 61)


def run(model, inputs, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


model = parser.parse_model(MODEL)
checker.check_model(model, full_check=True)
actual = None
try:
    actual = tuple(array.shape for array in run(model.SerializeToString(), INPUTS, "ORT_DISABLE_ALL"))
    print("expected", EXPECTED, "actual", actual)
except Exception as error:
    print(error)
print("fixed" if actual == EXPECTED else "reproduced")
sys.exit(0 if actual == EXPECTED else 1)
