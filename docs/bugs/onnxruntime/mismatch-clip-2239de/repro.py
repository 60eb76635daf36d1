#!/usr/bin/env python3
"""onnxruntime: Clip: wrong values

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run.
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
   ir_version: 7,
   opset_import: ["" : 13],
   producer_name: "nnfuzz"
>
nnfuzz (int64[2] v13) => (int64[2] v14) 
   <int64 c_1 =  {0}, int64 c_2 =  {1}>
{
   [Clip_3] v14 = Clip (v13, c_1, c_2)
}"""
INPUTS = {
    'v13': np.array([0, 2147483655], 'int64'),
}
OUTPUT, DTYPE, SHAPE = 'v14', 'int64', (2,)
INDEX = (1,)  # the worst of 1 wrong elements
EXPECTED = LOW = HIGH = 1


OPTIMISATION = {'O0': 'ORT_DISABLE_ALL', 'O1': 'ORT_ENABLE_BASIC', 'O2': 'ORT_ENABLE_EXTENDED', 'O3': 'ORT_ENABLE_ALL'}
EXACT = (('session.qdq_matmulnbits_accuracy_level', '1'), ('session.disable_double_qdq_remover', '1'), ('optimization.disable_specified_optimizers', 'WeightBiasQuantization'))


def run(model, inputs, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPTIMISATION[level])
    options.intra_op_num_threads = 1
    for key, value in EXACT:
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
        return 1
    actual = np.asarray(outputs[OUTPUT])
    print(f"{level}: {OUTPUT} is {actual.dtype}{list(actual.shape)},", end=" ")
    print(f"expected {DTYPE}{list(SHAPE)}")
    if (str(actual.dtype), actual.shape) != (DTYPE, SHAPE):
        return 1
    value = type(EXPECTED)(actual[INDEX])  # NumPy would round the bounds to its dtype
    print(f"element {INDEX}: actual {value}, expected {EXPECTED} in [{LOW}, {HIGH}]")
    return 0 if LOW <= value <= HIGH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
