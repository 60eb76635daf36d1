#!/usr/bin/env python3
"""onnxruntime: DequantizeLinear + AveragePool, kernel_shape=[1, 1] + QuantizeLinear: Unrecognized attribute: dilations for operator QLinearAveragePool (InvalidGraph in compile, O3 only)

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
   ir_version: 12,
   opset_import: ["" : 24],
   producer_name: "nnfuzz"
>
nnfuzz (int8[1,1,1,1] v37_q, float v37_s, int8 v42_z) => (int8[1,1,1,1] v42_q) {
   [DequantizeLinear_1] v37_dq = DequantizeLinear (v37_q, v37_s)
   [AveragePool_2] v42 = AveragePool <kernel_shape: ints = [1, 1], strides: ints = [1, 1], pads: ints = [0, 0, 0, 0], ceil_mode: int = 0, count_include_pad: int = 0, dilations: ints = [1, 1]> (v37_dq)
   [QuantizeLinear_3] v42_q = QuantizeLinear (v42, v37_s, v42_z)
}"""
INPUTS = {
    'v37_q': np.array([[[[0]]]], 'int8'),
    'v37_s': np.array(1.0, 'float32'),
    'v42_z': np.array(0, 'int8'),
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
 'onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph: [ONNXRuntimeError] : 10 : '
 'INVALID_GRAPH : This is an invalid model. In Node, ("AveragePool_2", '
 'QLinearAveragePool, "com.microsoft", -1) : ("v37_q": tensor(int8),"v37_s": '
 'tensor(float),"init_optional_zero_point_int8_b33fd0fa-cd7b-4b10-ae5a-df64cabfe1f8": '
 'tensor(int8),"v37_s": tensor(float),"v42_z": tensor(int8),) -> ("v42_q": '
 'tensor(int8),) , Error Unrecognized attribute: dilations for operator '
 'QLinearAveragePool'), flush=True)
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
