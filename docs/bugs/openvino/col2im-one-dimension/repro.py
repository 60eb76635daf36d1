#!/usr/bin/env python3
"""openvino: exception in import (all levels): RuntimeError: ColNIm 'dilations' attribute must have size <shape>. Got: N

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
nnfuzz (float[1,1,1] v3) => (float[1,1,1] v5) 
   <int64[1] c_1 =  {1}, int64[1] c_2 =  {1}>
{
   [Col2Im_3] v5 = Col2Im <strides: ints = [1], dilations: ints = [1], pads: ints = [0, 0]> (v3, c_1, c_2)
}"""
INPUTS = {
    'v3': np.array([[[-0.0]]], 'float32'),
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
 '-- Col2Im-26 with a message:\n'
 "Check '(dilations.size() == spatial_rank)' failed at "
 'src/frontends/onnx/frontend/src/op/col2im.cpp:37:\n'
 "While validating ONNX node '<Node(Col2Im): Col2Im_3>':\n"
 "Col2Im 'dilations' attribute must have size [2]. Got: 1\n"
 '\n'
 'Summary:\n'
 '-- Conversion is failed for: Col2Im-26\n'
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
