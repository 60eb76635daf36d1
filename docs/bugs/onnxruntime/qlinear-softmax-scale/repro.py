#!/usr/bin/env python3
"""onnxruntime: wrong value at QuantizeLinear after Softmax (O3, default only)

Needs onnxruntime 1.32.0, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3, default; default: O3

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run or fails otherwise.
"""

from __future__ import annotations

import sys

try:
    import numpy as np
    from onnx import parser
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

MODEL = """
<
   ir_version: 8,
   opset_import: ["" : 17]
>
m (uint8[1,2] x) => (uint8[1,2] y) 
   <float s =  {0.05}, uint8 z =  {0}, float ys =  {0.003921569}>
{
   a = DequantizeLinear (x, s, z)
   b = Softmax <axis: int = -1> (a)
   y = QuantizeLinear (b, ys, z)
}"""
INPUTS = {
    'x': np.array([[250, 40]], 'uint8'),
}
OUTPUT, DTYPE, SHAPE = 'y', 'uint8', (1, 2)
INDEX = (0, 0)  # the worst of 1 wrong elements
EXPECTED = LOW = HIGH = 255


OPTIMISATION = {'O0': 'ORT_DISABLE_ALL', 'O1': 'ORT_ENABLE_BASIC', 'O2': 'ORT_ENABLE_EXTENDED', 'O3': 'ORT_ENABLE_ALL', 'default': 'ORT_ENABLE_ALL'}
EXACT = (('session.qdq_matmulnbits_accuracy_level', '1'), ('session.disable_double_qdq_remover', '1'), ('session.x64quantprecision', '1'), ('optimization.disable_specified_optimizers', 'WeightBiasQuantization'))


def run(model, inputs, level):
    import onnxruntime as ort

    exact = {} if level == "default" else dict(EXACT)  # default: as everybody opens it
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPTIMISATION[level])
    options.intra_op_num_threads = 1
    for key, value in exact.items():
        options.add_session_config_entry(key, value)
    session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    try:
        outputs = run(*load(), level)
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    if OUTPUT not in outputs:
        print(f"{level}: there is no output {OUTPUT!r}")
        return 125
    actual = np.asarray(outputs[OUTPUT])
    print(f"{level}: {OUTPUT} is {actual.dtype}{list(actual.shape)},", end=" ")
    print(f"expected {DTYPE}{list(SHAPE)}")
    if (str(actual.dtype), actual.shape) != (DTYPE, SHAPE):
        return 125
    value = type(EXPECTED)(actual[INDEX])  # NumPy would round the bounds to its dtype
    print(f"element {INDEX}: actual {value}, expected {EXPECTED} in [{LOW}, {HIGH}]")
    return 0 if LOW <= value <= HIGH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O3'))
