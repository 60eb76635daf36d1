#!/usr/bin/env python3
"""onnxruntime: wrong value at com.microsoft.MultiHeadAttention (all levels)

Needs onnxruntime 1.32.0, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3, default; default: O0

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
   opset_import: ["" : 17, "com.microsoft" : 1]
>
g (float[1,1,4] q, float[1,1,4] k, float[1,1,4] v, float[1,2,3,2] pk, float[1,2,3,2] pv) => (float[1,1,4] y) {
   y = com.microsoft.MultiHeadAttention <num_heads: int = 2> (q, k, v, "", "", "", pk, pv)
}"""
INPUTS = {
    'q': np.array([[[1.3894832134246826, 1.6206610202789307, 1.3209577798843384, 1.6907594203948975]]], 'float32'),
    'k': np.array([[[1.656518578529358, 1.41962730884552, 0.20946133136749268, 0.466100811958313]]], 'float32'),
    'v': np.array([[[2.4194412231445312, 1.968334674835205, -1.0720152854919434, 0.06150102615356445]]], 'float32'),
    'pk': np.array([[[[-1.3520945310592651, -0.09456413239240646], [-0.5557059049606323, -2.149954319000244], [-0.008406654000282288, -0.834864616394043]], [[-1.1209650039672852, 0.043825436383485794], [0.6119735836982727, 1.323740005493164], [-0.570554256439209, 1.1181788444519043]]]], 'float32'),
    'pv': np.array([[[[1.1491148471832275, 1.1914103031158447], [1.6697916984558105, 1.2901372909545898], [0.7975468635559082, 0.43035608530044556]], [[0.45395001769065857, 1.6853331327438354], [0.2589535713195801, 0.5865035653114319], [1.9750499725341797, 1.6507453918457031]]]], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'y', 'float32', (1, 1, 4)
INDEX = (0, 0, 2)  # the worst of 4 wrong elements
EXPECTED = 0.3398982286453247  # computed in float64
LOW, HIGH = 0.33989637124852295, 0.3399000674111233  # what rounding can account for


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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
