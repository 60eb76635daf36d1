#!/usr/bin/env python3
"""onnxruntime: assertion __n < this->size() failed in std::vector::operator[] (SIGABRT in compile, all levels)

Needs onnxruntime 1.32.0, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3, default; default: O0

Exit code 0 once it is fixed, 125 where it cannot run or fails otherwise; while it reproduces, SIGABRT ends it.
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
   ir_version: 9,
   opset_import: ["" : 18, "com.microsoft" : 1]
>
g (uint8[4] x) => (uint8[4] y) 
   <float xs =  {0.1}, uint8 xz =  {128}, float ys =  {0.00390625}>
{
   y = com.microsoft.QLinearSigmoid (x, xs, xz, ys)
}"""
INPUTS = {
    'x': np.array([3, 2, 2, 1], 'uint8'),
}


OPTIMISATION = {'O0': 'ORT_DISABLE_ALL', 'O1': 'ORT_ENABLE_BASIC', 'O2': 'ORT_ENABLE_EXTENDED', 'O3': 'ORT_ENABLE_ALL', 'default': 'ORT_ENABLE_ALL'}
EXACT = (('session.qdq_matmulnbits_accuracy_level', '1'), ('session.disable_double_qdq_remover', '1'), ('optimization.disable_specified_optimizers', 'WeightBiasQuantization'))


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
    print(('Expected: the model compiles and runs. Seen at O0, O3, default, stage compile: the '
 'process is killed by SIGABRT'), flush=True)
    try:
        model, inputs = load()
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    try:
        run(model, inputs, level)
    except (ImportError, AttributeError, FileNotFoundError) as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    except Exception as error:
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        print(f"{level}: {name}: {error}")
        return 125
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
