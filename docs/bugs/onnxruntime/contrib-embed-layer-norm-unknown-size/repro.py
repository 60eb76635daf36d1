#!/usr/bin/env python3
"""onnxruntime: EmbedLayerNormalization, epsilon=0.1: Node (<name>) Op (EmbedLayerNormalization) [ShapeInferenceError] word_embedding should have N dimensions and dimension size is known. (Fail in compile)

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
   opset_import: ["" : 14, "com.microsoft" : 1],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,n0] p1, float[n0] p3) => (float[1,1,n0] v5) 
   <int32[1,1] p0 =  {0}, float[1,1,n0] v6>
{
   ["com.microsoft.EmbedLayerNormalization_1"] v5, "com.microsoft.EmbedLayerNormalization_2", v6 = com.microsoft.EmbedLayerNormalization <epsilon: float = 0.1> (p0, "", p1, p1, "", p3, p3)
}"""
INPUTS = {
    'p1': np.array([[0.0, 0.348388671875]], 'float32'),
    'p3': np.array([0.0, -0.82470703125], 'float32'),
    'p1_at1': np.array([[0.0]], 'float32'),
    'p3_at1': np.array([0.0], 'float32'),
    'p1_at2': np.array([[0.0, 1.3203125]], 'float32'),
    'p3_at2': np.array([0.0, 0.4697265625], 'float32'),
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


def run_sizes(model, inputs, level):
    """One run per size of the symbolic dimension: NAME_atK belongs to run K, NAME to run 0."""
    runs = {}
    for key, array in inputs.items():
        name, _, k = key.partition("_at")
        runs.setdefault(int(k or 0), {})[name] = array
    return {
        f"{name}_at{k}" if k else name: value
        for k, part in sorted(runs.items())
        for name, value in run(model, part, level).items()
    }


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at O0, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 'Node (com.microsoft.EmbedLayerNormalization_1) Op (EmbedLayerNormalization) '
 '[ShapeInferenceError] word_embedding should have 2 dimensions and dimension size is '
 'known.'), flush=True)
    try:
        model, inputs = load()
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    try:
        run_sizes(model, inputs, level)
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
