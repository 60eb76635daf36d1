#!/usr/bin/env python3
"""onnxruntime: Attention, is_causal=1, q_num_heads=4, kv_num_heads=2: Type Error: Type parameter (<name>) of Optype (Add) bound to different types (tensor(double) and tensor(float) in node (<name>). (Fail in compile, all levels)

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

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
   ir_version: 13,
   opset_import: ["" : 25],
   producer_name: "nnfuzz"
>
nnfuzz (double[1,1,2] p72, double[1,2] p73, double[1,2,1,1] p74, double[1,1,4] v68) => (double[1,1,4] v76) {
   [Attention_1] v76, v77, v78 = Attention <softcap: float = 0, is_causal: int = 1, softmax_precision: int = 1, q_num_heads: int = 4, kv_num_heads: int = 2> (v68, p72, p72, p73, p74, p74)
}"""
INPUTS = {
    'p72': np.array([[[0.0, 0.0]]], 'float64'),
    'p73': np.array([[0.0, 0.0]], 'float64'),
    'p74': np.array([[[[0.0]], [[0.0]]]], 'float64'),
    'v68': np.array([[[0.0, 0.0, 0.0, 0.0]]], 'float64'),
}


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
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 'Type Error: Type parameter (T) of Optype (Add) bound to different types '
 '(tensor(double) and tensor(float) in node ().'), flush=True)
    try:
        model, inputs = load()
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    try:
        run(model, inputs, level)
    except (ImportError, AttributeError) as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    except Exception as error:
        print(f"{level}: {type(error).__module__}.{type(error).__qualname__}: {error}")
        return 1
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
