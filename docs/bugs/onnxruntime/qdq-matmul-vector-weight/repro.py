#!/usr/bin/env python3
"""onnxruntime: DequantizeLinear + DequantizeLinear, axis=0 + MatMul + QuantizeLinear: QLinearMatmul : weight zero point must be a scalar, 1D tensor of size N, or last to second dimension is N (Fail in execute, O3 only)

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
   ir_version: 7,
   opset_import: ["" : 13],
   producer_name: "nnfuzz"
>
nnfuzz (uint8[2] v13_q, float v13_s, float[2] p14_s) => (uint8 v15_q) {
   [DequantizeLinear_1] v13_dq = DequantizeLinear (v13_q, v13_s)
   [DequantizeLinear_2] p14_dq = DequantizeLinear <axis: int = 0> (v13_q, p14_s, v13_q)
   [MatMul_3] v15 = MatMul (v13_dq, p14_dq)
   [QuantizeLinear_4] v15_q = QuantizeLinear (v15, v13_s)
}"""
INPUTS = {
    'v13_q': np.array([0, 0], 'uint8'),
    'v13_s': np.array(1.0, 'float32'),
    'p14_s': np.array([1.0, 1.0], 'float32'),
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
    print(('Expected: the model compiles and runs. Seen at O3, stage execute: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 "Non-zero status code returned while running QLinearMatMul node. Name:'MatMul_3' "
 'Status Message: '
 '/onnxruntime_src/onnxruntime/core/providers/cpu/quantization/quantize_linear_matmul.cc:80 '
 'virtual onnxruntime::common::Status '
 'onnxruntime::QLinearMatMul::Compute(onnxruntime::OpKernelContext*) const '
 'IsBQuantParamSupported(b_offset->Shape(), b ? b->Shape() : b_shape_) was false. '
 'QLinearMatmul : weight zero point must be a scalar, 1D tensor of size 1, or last to '
 'second dimension is 1\n'), flush=True)
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
