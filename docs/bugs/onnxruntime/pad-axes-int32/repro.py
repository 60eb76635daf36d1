#!/usr/bin/env python3
"""onnxruntime: Inverse + Pad: ParseData type mismatch for tensor: c_1. Expected:int64 Actual:int32 (compile)

Needs onnxruntime 1.32.0, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run or fails otherwise.
"""

from __future__ import annotations

import re
import sys

try:
    import numpy as np
    from onnx import parser
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

MODEL = """
<
   ir_version: 10,
   opset_import: ["" : 21, "com.microsoft" : 1],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,1] v34) => (float[1,1] v37, float[1,1] v41) 
   <int64[4] c_2 =  {0,0,0,0}, float implied_1 =  {0}, int64[2] implied_2 =  {0,1}, int32[2] integers_1 =  {0,1}, int32[2] c_1 =  {-2,-1}>
{
   ["com.microsoft.Inverse_1"] v37 = com.microsoft.Inverse (v34)
   [v41] v41 = Pad <mode: string = "constant"> (v34, c_2, implied_1, c_1)
}"""
INPUTS = {
    'v34': np.array([[1.0]], 'float32'),
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
    seen = [('Fail',
  'ONNXRuntimeError FAIL Node Op Pad ShapeInferenceError ParseData type mismatch for '
  'tensor c_ Expected int Actual int')]
    print(('Expected: the model compiles and runs. Seen at O0, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 'Node (v41) Op (Pad) [ShapeInferenceError] ParseData type mismatch for tensor: c_1. '
 'Expected:int64 Actual:int32'), flush=True)
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
        words = re.findall('[A-Za-z_]{2,}', re.sub('[^\\s\'\\":,()<>|]*/[^\\s\'\\":,()<>|]*|\\\\[xuU][0-9a-f]+|0x[0-9a-fA-F]+|\\bTMP\\b', " ", str(error)))
        return 1 if (type(error).__name__, " ".join(words[:40])) in seen else 125
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
