#!/usr/bin/env python3
"""onnxruntime: ReduceSum + Slice + Concat, axis=0 + CumSum: <shape> != <shape>. Validate usage of dim_value (values should be > N) and dim_param (all values with the same string should equate to the same size) in shapes in the model. (Fail in execute, all levels)

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
   ir_version: 7,
   opset_import: ["" : 14],
   producer_name: "pytorch",
   producer_version: "2.13.0"
>
main_graph (float[0] v69) => (float[1] v71) {
   [Constant_7] "onnx::ReduceSum_1" = Constant <value: tensor = int64[1] {-1}> ()
   ["/ReduceSum"] "/ReduceSum_output_0" = ReduceSum <keepdims: int = 1> (v69, "onnx::ReduceSum_1")
   ["/Constant"] "/Constant_output_0" = Constant <value: tensor = int64[1] {0}> ()
   ["/Constant_1"] "/Constant_1_output_0" = Constant <value: tensor = int64[1] {0}> ()
   ["/Constant_2"] "/Constant_2_output_0" = Constant <value: tensor = int64[1] {-1}> ()
   ["/Constant_3"] "/Constant_3_output_0" = Constant <value: tensor = int64[1] {1}> ()
   ["/Slice"] "/Slice_output_0" = Slice ("/ReduceSum_output_0", "/Constant_1_output_0", "/Constant_2_output_0", "/Constant_output_0", "/Constant_3_output_0")
   ["/Constant_4"] "/Constant_4_output_0" = Constant <value: tensor = float[1] {0}> ()
   ["/Concat"] "/Concat_output_0" = Concat <axis: int = 0> ("/Constant_4_output_0", "/Slice_output_0")
   ["/Constant_5"] "/Constant_5_output_0" = Constant <value: tensor = int32 {0}> ()
   ["/CumSum"] v71 = CumSum ("/Concat_output_0", "/Constant_5_output_0")
}"""
INPUTS = {
    'v69': np.array([], 'float32').reshape((0,)),
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
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage execute: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 "Non-zero status code returned while running Concat node. Name:'/Concat' Status "
 'Message: /onnxruntime_src/onnxruntime/core/framework/op_kernel.cc:87 virtual '
 'OrtValue* onnxruntime::OpKernelContext::OutputMLValue(int, const '
 'onnxruntime::TensorShape&) [ONNXRuntimeError] : 1 : FAIL : Shape mismatch attempting '
 'to re-use buffer. {0} != {1}. Validate usage of dim_value (values should be > 0) and '
 'dim_param (all values with the same string should equate to the same size) in shapes '
 'in the model.\n'), flush=True)
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
