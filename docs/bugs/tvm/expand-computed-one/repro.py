#!/usr/bin/env python3
"""tvm: Expand to a computed size of 1 cuts the input

Needs tvm 0.27.0.post1, onnx, numpy; no other file.

    python repro.py

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import checker, parser

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
expanded (float[2, 3] x) => (float[2, 3] y) <int64[1] i = {0}, int64[1] one = {1}> {
   s = Shape (x)
   n = Gather (s, i)
   t = Concat <axis = 0> (n, one)
   y = Expand (x, t)
}
"""
INPUTS = {"x": np.arange(6, dtype="float32").reshape(2, 3)}
EXPECTED = [np.arange(6, dtype="float32").reshape(2, 3)]


def run(model, inputs, level):
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    module = from_onnx(onnx.load_model_from_string(model), keep_params_in_input=False)
    program = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    found = program["main"](*[tvm.runtime.tensor(inputs[name]) for name in inputs])
    return [found.numpy()]


model = parser.parse_model(MODEL)
checker.check_model(model, full_check=True)
fixed = False
try:
    actual = run(model.SerializeToString(), INPUTS, "")
    print("expected", EXPECTED, "actual", actual)
    fixed = all(
        a.shape == b.shape and np.array_equal(a, b)
        for a, b in zip(map(np.asarray, actual), EXPECTED)
    )
except Exception as error:
    print(error)
print("fixed" if fixed else "reproduced")
sys.exit(0 if fixed else 1)
