#!/usr/bin/env python3
"""onnxruntime: LayerNormalization: ignores epsilon (O2 only)

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O2; default: O2

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
   ir_version: 6,
   opset_import: ["" : 11],
   producer_name: "nnfuzz"
>
nnfuzz (double[1,2] v19, double[1] p22) => (double[1,2] v23) 
   <double c_3 =  {2}, double c_4 =  {0.10000000149011612}>
{
   [ReduceMean_1] ReduceMean_1 = ReduceMean <axes: ints = [1], keepdims: int = 1> (v19)
   [Sub_2] Sub_2 = Sub (v19, ReduceMean_1)
   [Pow_5] Pow_5 = Pow (Sub_2, c_3)
   [ReduceMean_6] ReduceMean_6 = ReduceMean <axes: ints = [1], keepdims: int = 1> (Pow_5)
   [Add_7] Add_7 = Add (ReduceMean_6, c_4)
   [Sqrt_8] Sqrt_8 = Sqrt (Add_7)
   [Div_9] Div_9 = Div (Sub_2, Sqrt_8)
   [Mul_10] v23 = Mul (Div_9, p22)
}"""
INPUTS = {
    'v19': np.array([[0.0, 1.0]], 'float64'),
    'p22': np.array([1.0], 'float64'),
}
OUTPUT, DTYPE, SHAPE = 'v23', 'float64', (1, 2)
INDEX = (0, 0)  # the worst of 2 wrong elements
EXPECTED = -0.8451542529294052  # computed in float64
LOW, HIGH = -0.8451542529294087, -0.8451542529294016  # what rounding can account for


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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O2'))
