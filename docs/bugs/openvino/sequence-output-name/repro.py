#!/usr/bin/env python3
"""openvino: exception in execute (all levels): RuntimeError: Port for tensor name <name> was not found.

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 7,
   opset_import: ["" : 13],
   producer_name: "nnfuzz"
>
nnfuzz (int64 p14, int64[1] v11) => (int64 v13, int64 v15) 
   <int64 c_3 =  {-1}, int64 c_5 =  {-1}>
{
   [ArgMin_1] v13 = ArgMin <keepdims: int = 0, axis: int = 0> (v11)
   [SequenceConstruct_2] SequenceConstruct_2 = SequenceConstruct (v13)
   [SequenceInsert_4] SequenceInsert_4 = SequenceInsert (SequenceConstruct_2, p14, c_3)
   [SequenceAt_6] v15 = SequenceAt (SequenceInsert_4, c_5)
}"""
INPUTS = {
    'p14': np.array(0, 'int64'),
    'v11': np.array([0], 'int64'),
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
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage execute: RuntimeError: '
 'Exception from src/inference/src/cpp/infer_request.cpp:189:\n'
 "Check '::getPort(port, name, {_impl->get_inputs(), _impl->get_outputs()})' failed at "
 'src/inference/src/cpp/infer_request.cpp:191:\n'
 'Port for tensor name v13 was not found.\n'
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
