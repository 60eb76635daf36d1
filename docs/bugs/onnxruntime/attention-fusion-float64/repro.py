#!/usr/bin/env python3
"""onnxruntime: Reshape + Transpose, perm=[0, 2, 1] + MatMul + Reshape and 7 more: utils::IsPrimitiveDataType(dtype_) was false. Tensor type mismatch. T !=NNonnxruntimeNPrimitiveDataTypeIdEE (Fail in compile, O2 only)

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O2; default: O2

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
   producer_name: "nnfuzz"
>
nnfuzz (double[1,2,1] p2) => (double[1,1,2,1] v14, double[1,1,2,1] v16, double[1,1,1,2] v18) 
   <double[1,3] p5 =  {0,0,0}, double p15 =  {0}, int64[3] c_1 =  {-1,1,2}, int64[5] c_5 =  {-1,2,3,1,1}, int64[3] c_8 =  {1,1,1}, int64[1] c_12 =  {0}, int64[1] c_14 =  {0}, int64[1] c_16 =  {0}>
{
   [Reshape_2] v3 = Reshape (p2, c_1)
   [Transpose_3] v4 = Transpose <perm: ints = [0, 2, 1]> (v3)
   [MatMul_4] v6 = MatMul (v4, p5)
   [Reshape_6] v7 = Reshape (v6, c_5)
   [Transpose_7] v8 = Transpose <perm: ints = [2, 0, 3, 1, 4]> (v7)
   [Split_9] v9, v10, v11 = Split <axis: int = 0> (v8, c_8)
   [Squeeze_13] v12 = Squeeze (v9, c_12)
   [Squeeze_15] v13 = Squeeze (v10, c_14)
   [Squeeze_17] v14 = Squeeze (v11, c_16)
   [Mul_18] v16 = Mul (v12, p15)
   [Transpose_19] v18 = Transpose <perm: ints = [0, 1, 3, 2]> (v13)
}"""
INPUTS = {
    'p2': np.array([[[0.0], [0.0]]], 'float64'),
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
    print(('Expected: the model compiles and runs. Seen at O2, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 'Exception during initialization: '
 '/onnxruntime_src/include/onnxruntime/core/framework/tensor.h:210 T* '
 'onnxruntime::Tensor::MutableData() [with T = float] '
 'utils::IsPrimitiveDataType<T>(dtype_) was false. Tensor type mismatch. T '
 '!=N11onnxruntime17PrimitiveDataTypeIdEE\n'), flush=True)
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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O2'))
