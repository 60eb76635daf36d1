#!/usr/bin/env python3
"""onnxruntime: exception in compile (O3 only): Fail: Exception during initialization: relu_clip_fusion.cc virtual onnxruntime::common::Status onnxruntime::FuseRe\u2026

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O3

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
nnfuzz (int64 p0, bool p5) => (int64 v7) {
   [If_9] v7 = If (p5) <then_branch: graph = body_6 () => (int64 b_3) 
      <int64 c_4 =  {0}>
{
      [Relu_2] b_1 = Relu (p0)
      [Clip_5] b_3 = Clip (b_1, c_4)
   }, else_branch: graph = body_8 () => (int64 Identity_7) {
      [Identity_7] Identity_7 = Identity (p0)
   }>
}"""
INPUTS = {
    'p0': np.array(0, 'int64'),
    'p5': np.array(False, 'bool'),
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
    print(('Expected: the model compiles and runs. Seen at O3, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 'Exception during initialization: '
 '/onnxruntime_src/onnxruntime/core/optimizer/relu_clip_fusion.cc:83 virtual '
 'onnxruntime::common::Status onnxruntime::FuseReluClip::Apply(onnxruntime::Graph&, '
 'onnxruntime::Node&, onnxruntime::RewriteRule::RewriteRuleEffect&, const '
 "onnxruntime::logging::Logger&) const Unexpected data type for Clip 'min' input of "
 '7\n'), flush=True)
    model, inputs = load()
    try:
        run(model, inputs, level)
    except Exception as error:
        print(f"{level}: {type(error).__module__}.{type(error).__qualname__}: {error}")
        return 1
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O3'))
