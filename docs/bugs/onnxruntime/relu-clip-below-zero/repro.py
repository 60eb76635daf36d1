#!/usr/bin/env python3
"""onnxruntime: Relu + Clip, max=-8: min_ <= max_ was false. (Fail in compile, O1 only)

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
   ir_version: 5,
   opset_import: ["" : 10],
   producer_name: "nnfuzz"
>
nnfuzz (float p0) => (float v6) {
   [Relu_1] v5 = Relu (p0)
   [Clip_3] v6 = Clip <max: float = -8> (v5)
}"""
INPUTS = {
    'p0': np.array(0.0, 'float32'),
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
    print(('Expected: the model compiles and runs. Seen at O1, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 'Exception during initialization: '
 '/onnxruntime_src/onnxruntime/core/providers/cpu/math/clip.h:23 '
 'onnxruntime::clip_internal::Clip_6Base<T>::Clip_6Base(const '
 'onnxruntime::OpKernelInfo&) [with T = float] min_ <= max_ was false. \n'), flush=True)
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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O1'))
