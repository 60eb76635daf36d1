#!/usr/bin/env python3
"""onnxruntime: exception in compile (all levels): Fail: Node (<name>) Op (NegativeLogLikelihoodLoss) [ShapeInferenceError] Input rank must be >= N input_rank=N

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 13,
   opset_import: ["" : 25],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,1,1] p1, float[1] p8, int64[1,1,1] p15) => (float[1,1,1] v16) {
   [GroupNormalization_1] p6 = GroupNormalization <epsilon: float = 0.01, num_groups: int = 1> (p1, p8, p8)
   [Attention_2] v4, Attention_3, Attention_4, v5 = Attention <scale: float = 1, softcap: float = 0, is_causal: int = 0, qk_matmul_output_mode: int = 0, q_num_heads: int = 1, kv_num_heads: int = 1> (p6, p1, p1)
   [NegativeLogLikelihoodLoss_6] v16 = NegativeLogLikelihoodLoss <reduction: string = "none", ignore_index: int = 0> (v5, p15)
}"""
INPUTS = {
    'p1': np.array([[[0.0]]], 'float32'),
    'p8': np.array([0.0], 'float32'),
    'p15': np.array([[[0]]], 'int64'),
}


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
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 'Node (NegativeLogLikelihoodLoss_6) Op (NegativeLogLikelihoodLoss) '
 '[ShapeInferenceError] Input rank must be >= 2. input_rank=0'), flush=True)
    model, inputs = load()
    try:
        run(model, inputs, level)
    except Exception as error:
        print(f"{level}: {type(error).__module__}.{type(error).__qualname__}: {error}")
        return 1
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
