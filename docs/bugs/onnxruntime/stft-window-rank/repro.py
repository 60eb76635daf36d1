#!/usr/bin/env python3
"""onnxruntime: exception in compile (all levels): Fail: Node (<name>) Op (STFT) [ShapeInferenceError] window input must have rank = N

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 8,
   opset_import: ["" : 17],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,2,1] p0, float[1] p12) => (float[1,1,2,2] v2) 
   <int64 c_3 =  {1}>
{
   [SequenceConstruct_1] SequenceConstruct_1 = SequenceConstruct (p12, p12)
   [ConcatFromSequence_2] p8 = ConcatFromSequence <axis: int = 0> (SequenceConstruct_1)
   [STFT_4] v2 = STFT <onesided: int = 0> (p0, c_3, p8)
}"""
INPUTS = {
    'p0': np.array([[[0.0], [0.0]]], 'float32'),
    'p12': np.array([0.0], 'float32'),
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
 'Node (STFT_4) Op (STFT) [ShapeInferenceError] window input must have rank = 1.'), flush=True)
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
