#!/usr/bin/env python3
"""openvino: exception in import (all levels): RuntimeError: The number of dequantization scale elements <name> must match the input shape dimension 'N pointed to\u2026

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 13,
   opset_import: ["" : 26],
   producer_name: "nnfuzz"
>
nnfuzz (uint8[2,1,1] p17, float p20, int8[1,1,1] v7, float p15, int8 p16, float[2] p18, uint8[2] p19, uint8 p21) => (uint8[1,2,1] v22) {
   [QLinearConv_1] v22 = QLinearConv <group: int = 1, strides: ints = [1], dilations: ints = [1], pads: ints = [0, 0]> (v7, p15, p16, p17, p18, p19, p20, p21)
}"""
INPUTS = {
    'p17': np.array([[[0]], [[0]]], 'uint8'),
    'p20': np.array(1.0, 'float32'),
    'v7': np.array([[[0]]], 'int8'),
    'p15': np.array(0.20000000298023224, 'float32'),
    'p16': np.array(0, 'int8'),
    'p18': np.array([0.10000000149011612, 0.30000001192092896], 'float32'),
    'p19': np.array([0, 0], 'uint8'),
    'p21': np.array(0, 'uint8'),
}


def run(model, inputs, level):
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import numpy_helper

    config = {**{'INFERENCE_PRECISION_HINT': 'f32', 'INFERENCE_NUM_THREADS': 1, 'NUM_STREAMS': 1}, **{'O0': {'SNIPPETS_MODE': 'DISABLE'}, 'O3': {}}[level]}
    core = ov.Core()
    request = core.compile_model(core.read_model(model), "CPU", config).create_infer_request()
    for port in request.model_inputs:  # an input that is not used is none
        (name,) = port.names & inputs.keys()
        raw = np.frombuffer(numpy_helper.from_array(inputs[name]).raw_data, np.uint8)
        tensor = ov.Tensor(port.element_type, inputs[name].shape)
        tensor.data.reshape(-1).view(np.uint8)[:] = raw
        request.set_tensor(name, tensor)
    request.infer()
    outputs = {}
    for value in onnx.load_model_from_string(model).graph.output:
        tensor = request.get_tensor(value.name)
        type_ = value.type.tensor_type.elem_type
        packed = onnx.TensorProto(data_type=type_, dims=list(tensor.shape))
        packed.raw_data = tensor.data.tobytes()
        outputs[value.name] = numpy_helper.to_array(packed)
    return outputs


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage import: RuntimeError: '
 'Exception from src/inference/src/cpp/core.cpp:105:\n'
 "Check 'false' failed at "
 'src/frontends/common_translators/src/unconverted_ops_report.cpp:151:\n'
 'FrontEnd API failed with OpConversionFailure:\n'
 "Model wasn't fully converted. Failed operations detailed log:\n"
 '-- QLinearConv-26 with a message:\n'
 'While validati\n'
 '[... 87 characters left out ...]\n'
 "_axis)' failed at src/frontends/onnx/frontend/src/op/dequantize_linear.cpp:119:\n"
 'FrontEnd API failed with GeneralFailure:\n'
 "The number of dequantization scale elements '2' must match the input shape dimension "
 "'1 pointed to by the axis attribute: 1\n"
 '\n'
 'Summary:\n'
 '-- Conversion is failed for: QLinearConv-26\n'
 '\n'), flush=True)
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
