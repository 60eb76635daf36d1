#!/usr/bin/env python3
"""onnxruntime: Clip: This is an invalid model. Type Error: Type 'tensor(bfloat16)' of input parameter (<name>) of operator (Where) in node (<name>) is invalid. (InvalidGraph in compile)

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run.
"""

from __future__ import annotations

import sys

try:
    import ml_dtypes  # noqa: F401 (comes with onnx; NumPy learns bfloat16 and the like from it)
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
nnfuzz (bfloat16 v3) => (bfloat16 v12) 
   <bfloat16 c_1 =  {0}, bfloat16 c_2 =  {0}>
{
   [Clip_3] v12 = Clip (v3, c_1, c_2)
}"""
INPUTS = {
    'v3': np.array(0.0, 'bfloat16'),
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

    import numpy as np
    from onnx import helper, numpy_helper

    dtype = helper.tensor_dtype_to_np_dtype(value.element_type())
    tensor = numpy_helper.from_array(np.zeros(value.shape(), dtype))
    tensor.raw_data = ctypes.string_at(value.data_ptr(), len(tensor.raw_data))
    return numpy_helper.to_array(tensor)


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at O0, stage compile: '
 'onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph: [ONNXRuntimeError] : 10 : '
 "INVALID_GRAPH : This is an invalid model. Type Error: Type 'tensor(bfloat16)' of "
 'input parameter (c_1) of operator (Where) in node () is invalid.'), flush=True)
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
