#!/usr/bin/env python3
"""onnxruntime: exception in compile: Fail: Type Error: Type parameter (<name>) of Optype (Add) bound to different types (tensor(bfloat16) and tensor(float) in no\u2026

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import ml_dtypes  # noqa: F401 (comes with onnx; NumPy learns bfloat16 and the like from it)
import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 13,
   opset_import: ["" : 25],
   producer_name: "nnfuzz"
>
nnfuzz (bfloat16[1,1,1] p0, bfloat16[1,1,1,1] p4, bfloat16[1,2] p3) => (bfloat16[1,1,1] v6) {
   [Attention_1] v6, v7, v8, v9 = Attention <softcap: float = 0, is_causal: int = 1, qk_matmul_output_mode: int = 0, q_num_heads: int = 1, kv_num_heads: int = 1> (p0, p0, p0, p3, p4, p4)
}"""
INPUTS = {
    'p0': np.array([[[0.0]]], 'bfloat16'),
    'p4': np.array([[[[0.0]]]], 'bfloat16'),
    'p3': np.array([[0.0, 0.0]], 'bfloat16'),
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
    values = {name: to_ort(array) for name, array in inputs.items()}
    found = session.run_with_ort_values(names, values)
    return {name: from_ort(value) for name, value in zip(names, found)}


def to_ort(array):  # ONNX Runtime takes no arrays of bfloat16, float8 or int4
    import ctypes

    import onnxruntime as ort
    from onnx import numpy_helper

    tensor = numpy_helper.from_array(array)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), tensor.data_type)
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def from_ort(value):
    import ctypes

    from onnx import TensorProto, numpy_helper

    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    type_ = value.element_type()
    return numpy_helper.to_array(TensorProto(dims=value.shape(), data_type=type_, raw_data=raw))


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at O0, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : '
 'Type Error: Type parameter (T) of Optype (Add) bound to different types '
 '(tensor(bfloat16) and tensor(float) in node ().'), flush=True)
    model, inputs = load()
    try:
        run(model, inputs, level)
    except Exception as error:
        print(f"{level}: {type(error).__module__}.{type(error).__qualname__}: {error}")
        return 1
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
