#!/usr/bin/env python3
"""onnxruntime: Div + Shape + If: Invalid model. Node input <name> is not a graph input, initializer, or output of a previous node. (InvalidArgument in compile, O3 only)

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
   ir_version: 13,
   opset_import: ["" : 25],
   producer_name: "nnfuzz"
>
nnfuzz (float[1] p0_dq, float p1_dq) => (int64[1] v18, float[1] v21) 
   <bool p19 =  {1}>
{
   [Div_1] v2 = Div (p0_dq, p1_dq)
   [Shape_2] v18 = Shape (v2)
   [If_7] v21 = If (p19) <then_branch: graph = body_4 () => (float[1] Identity_3) {
      [Identity_3] Identity_3 = Identity (v2)
   }, else_branch: graph = body_6 () => (float[1] Identity_5) {
      [Identity_5] Identity_5 = Identity (p0_dq)
   }>
}"""
INPUTS = {
    'p0_dq': np.array([0.0], 'float32'),
    'p1_dq': np.array(1.0, 'float32'),
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
    print(('Expected: the model compiles and runs. Seen at O3, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument: [ONNXRuntimeError] : 2 '
 ": INVALID_ARGUMENT : Invalid model. Node input 'v2' is not a graph input, "
 'initializer, or output of a previous node.'), flush=True)
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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O3'))
