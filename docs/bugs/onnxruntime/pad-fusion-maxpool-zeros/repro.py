#!/usr/bin/env python3
"""onnxruntime: Pad + MaxPool, kernel_shape=[2]: wrong values (O1 only)

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O1; default: O1

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
   ir_version: 12,
   opset_import: ["" : 24],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,1,1] v12) => (float[1,1,1] v76) 
   <int64[6] c_1 =  {0,0,0,0,0,1}>
{
   [Pad_2] v75 = Pad <mode: string = "constant"> (v12, c_1)
   [MaxPool_3] v76 = MaxPool <kernel_shape: ints = [2], strides: ints = [1], pads: ints = [0, 0], ceil_mode: int = 0, dilations: ints = [1]> (v75)
}"""
INPUTS = {
    'v12': np.array([[[-0.30000001192092896]]], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v76', 'float32', (1, 1, 1)
INDEX = (0, 0, 0)  # the worst of 1 wrong elements
EXPECTED = 0.0  # computed in float64
LOW, HIGH = -1.401298464324817e-45, 1.401298464324817e-45  # what rounding can account for


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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O1'))
