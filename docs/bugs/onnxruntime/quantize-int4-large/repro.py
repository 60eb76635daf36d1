#!/usr/bin/env python3
"""onnxruntime: wrong value at QuantizeLinear

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
nnfuzz (float p0, float p1) => (int4 v2) {
   [QuantizeLinear_1] v2 = QuantizeLinear <output_dtype: int = 22> (p0, p1)
}"""
INPUTS = {
    'p0': np.array(412316860416.0, 'float32'),
    'p1': np.array(0.20000000298023224, 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v2', 'int4', ()
INDEX = ()  # the worst of 1 wrong elements
EXPECTED = LOW = HIGH = 7


OPTIMISATION = {'O0': 'ORT_DISABLE_ALL', 'O1': 'ORT_ENABLE_BASIC', 'O2': 'ORT_ENABLE_EXTENDED', 'O3': 'ORT_ENABLE_ALL'}
EXACT = (('session.qdq_matmulnbits_accuracy_level', '1'), ('session.disable_double_qdq_remover', '1'))


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
    outputs = run(*load(), level)
    if OUTPUT not in outputs:
        print(f"{level}: there is no output {OUTPUT!r}")
        return 1
    actual = np.asarray(outputs[OUTPUT])
    print(f"{level}: {OUTPUT} is {actual.dtype}{list(actual.shape)},", end=" ")
    print(f"expected {DTYPE}{list(SHAPE)}")
    if (str(actual.dtype), actual.shape) != (DTYPE, SHAPE):
        return 1
    value = type(EXPECTED)(actual[INDEX])  # NumPy would round the bounds to its dtype
    print(f"element {INDEX}: actual {value}, expected {EXPECTED} in [{LOW}, {HIGH}]")
    return 0 if LOW <= value <= HIGH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
