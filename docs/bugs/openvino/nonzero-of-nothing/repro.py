#!/usr/bin/env python3
"""openvino: exception in compile (all levels): RuntimeError: Can not create StaticMemory object. The memory desc is undefined

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 9,
   opset_import: ["" : 20],
   producer_name: "nnfuzz"
>
nnfuzz () => (int64[1,1] v14) 
   <int64[1] p6 =  {0}, int64[2] c_3 =  {1,1}, int64[1] c_5 =  {0}, int64[1] c_6 =  {1}, int64[1] c_7 =  {1}>
{
   [BitwiseAnd_1] v10 = BitwiseAnd (p6, p6)
   [NonZero_2] NonZero_2 = NonZero (v10)
   [ConstantOfShape_4] ConstantOfShape_4 = ConstantOfShape <value: tensor = int64[1] {0}> (c_3)
   [Concat_8] Concat_8 = Concat <axis: int = 1> (NonZero_2, ConstantOfShape_4)
   [Slice_9] Slice_9 = Slice (Concat_8, c_5, c_6, c_7)
   [Reshape_10] v14 = Reshape (Slice_9, c_3)
}"""
INPUTS = {
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
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage compile: RuntimeError: '
 'Exception from src/inference/src/cpp/core.cpp:117:\n'
 'Exception from src/inference/src/dev/plugin.cpp:54:\n'
 "Check 'm_pMemDesc->isDefined()' failed at "
 'src/plugins/intel_cpu/src/cpu_memory.cpp:446:\n'
 'Can not create StaticMemory object. The memory desc is undefined\n'
 '\n'
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
