#!/usr/bin/env python3
"""onnxruntime: exception in compile (O3 only): Fail: Exception during initialization: pool_attributes.h onnxruntime::PoolAttributes::PoolAttributes(const KernelI\u2026

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O3

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 9,
   opset_import: ["" : 19],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,1,1,1] p0) => (float[1,1,2,1] v2) 
   <int64[8] c_1 =  {0,0,0,0,0,0,2,2}>
{
   [Pad_2] v1 = Pad <mode: string = "constant"> (p0, c_1)
   [AveragePool_3] v2 = AveragePool <kernel_shape: ints = [2, 3], strides: ints = [1, 1], pads: ints = [0, 0, 0, 0], ceil_mode: int = 0, count_include_pad: int = 0> (v1)
}"""
INPUTS = {
    'p0': np.array([[[[0.0]]]], 'float32'),
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
 '/onnxruntime_src/onnxruntime/core/providers/cpu/nn/pool_attributes.h:88 '
 'onnxruntime::PoolAttributes::PoolAttributes(const KernelInfoType&, const '
 'std::string&, int) [with KernelInfoType = onnxruntime::OpKernelInfo; std::string = '
 'std::__cxx11::basic_string<char>] pads[dim] < kernel_shape[dim] && pads[dim + '
 'kernel_shape.size()] < kernel_shape[dim] was false. Pad should be smaller than '
 'kernel.\n'), flush=True)
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
