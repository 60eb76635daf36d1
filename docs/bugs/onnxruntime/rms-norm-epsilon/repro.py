#!/usr/bin/env python3
"""onnxruntime: wrong value at Mul after Div (O3 only)

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O3

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 8,
   opset_import: ["" : 18],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,1] v2, float[1] p10, float p6) => (float[1,1] v11) 
   <float p3 =  {2}, int64[1] c_2 =  {1}>
{
   [Pow_1] v4 = Pow (v2, p3)
   [ReduceMean_3] v5 = ReduceMean <keepdims: int = 0> (v4, c_2)
   [Add_4] v7 = Add (v5, p6)
   [Sqrt_5] v8 = Sqrt (v7)
   [Div_6] v9 = Div (v2, v8)
   [Mul_7] v11 = Mul (v9, p10)
}"""
INPUTS = {
    'v2': np.array([[1.0]], 'float32'),
    'p10': np.array([1.0], 'float32'),
    'p6': np.array(0.0, 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v11', 'float32', (1, 1)
INDEX = (0, 0)  # the worst of 1 wrong elements
EXPECTED = 1.0  # computed in float64
LOW, HIGH = 0.9999988079071969, 1.0000011920940537  # what rounding can account for


OPTIMISATION = {'O0': 'ORT_DISABLE_ALL', 'O1': 'ORT_ENABLE_BASIC', 'O2': 'ORT_ENABLE_EXTENDED', 'O3': 'ORT_ENABLE_ALL'}


def run(model, inputs, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPTIMISATION[level])
    options.intra_op_num_threads = 1
    for key, value in (('session.qdq_matmulnbits_accuracy_level', '1'), ('session.disable_double_qdq_remover', '1')):
        options.add_session_config_entry(key, value)
    session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    outputs = run(*load(), level)
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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O3'))
