#!/usr/bin/env python3
"""onnxruntime: QuantizeLinear + DequantizeLinear + AveragePool, kernel_shape=[3, 1], strides=[2, 1], ceil_mode=1, count_include_pad=1 + QuantizeLinear: wrong values (O3 only)

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O3

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
nnfuzz (float[1,1,4,1] p10, float p10_s) => (uint8[1,1,2,1] p8_q) 
   <int8 c_1 =  {0}>
{
   [QuantizeLinear_2] p10_q = QuantizeLinear (p10, p10_s, c_1)
   [DequantizeLinear_3] p10_dq1 = DequantizeLinear (p10_q, p10_s)
   [AveragePool_4] p8 = AveragePool <kernel_shape: ints = [3, 1], strides: ints = [2, 1], pads: ints = [0, 0, 0, 0], ceil_mode: int = 1, count_include_pad: int = 1> (p10_dq1)
   [QuantizeLinear_5] p8_q = QuantizeLinear (p8, p10_s)
}"""
INPUTS = {
    'p10': np.array([[[[0.0], [0.0], [780.0], [0.0]]]], 'float32'),
    'p10_s': np.array(1.0, 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'p8_q', 'uint8', (1, 1, 2, 1)
INDEX = (0, 0, 1, 0)  # the worst of 1 wrong elements
EXPECTED = 64  # computed in float64
LOW, HIGH = 63, 64  # what rounding can account for


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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O3'))
