#!/usr/bin/env python3
"""openvino: exception in compile (dynamic only): RuntimeError: data size: N OC: N

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3, dynamic; default: dynamic

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 10,
   opset_import: ["" : 22],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,1,1] p0, float[2,4,1] p2) => (float[1,2,1,1] v6) 
   <float[2,8] p3 =  {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}>
{
   [LSTM_1] v6, v7, v8 = LSTM <direction: string = "bidirectional", hidden_size: int = 1> (p0, p2, p2, p3)
}"""
INPUTS = {
    'p0': np.array([[[0.0]]], 'float32'),
    'p2': np.array([[[0.0], [0.0], [0.0], [0.0]], [[0.0], [0.0], [0.0], [0.0]]], 'float32'),
}


def run(model, inputs, level):
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import numpy_helper

    config = {**{'INFERENCE_PRECISION_HINT': 'f32', 'DYNAMIC_QUANTIZATION_GROUP_SIZE': 0, 'KV_CACHE_PRECISION': 'f32', 'INFERENCE_NUM_THREADS': 1, 'NUM_STREAMS': 1}, **{'O0': {'LP_TRANSFORMS_MODE': False, 'SNIPPETS_MODE': 'DISABLE'}, 'O3': {}, 'dynamic': {}, 'streams': {'INFERENCE_NUM_THREADS': 2, 'NUM_STREAMS': 2}, 'cached': {}}[level]}
    core = ov.Core()
    graph = core.read_model(model)
    if level == "dynamic":
        graph.reshape({p: ov.PartialShape([-1] * len(p.partial_shape)) for p in graph.inputs})
    compiled = core.compile_model(graph, "CPU", config)
    if level == "cached":
        compiled = core.import_model(compiled.export_model(), "CPU", config)
    requests = [compiled.create_infer_request() for _ in range({'streams': 4}.get(level, 1))]
    for request in requests:
        for port in request.model_inputs:  # an input that is not used is none
            (name,) = port.names & inputs.keys()
            raw = np.frombuffer(numpy_helper.from_array(inputs[name]).raw_data, np.uint8)
            tensor = ov.Tensor(port.element_type, inputs[name].shape)
            tensor.data.reshape(-1).view(np.uint8)[:] = raw
            request.set_tensor(name, tensor)
        request.start_async()
    for request in requests:
        request.wait()
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
    print(('Expected: the model compiles and runs. Seen at dynamic, stage compile: RuntimeError: '
 'Exception from src/inference/src/cpp/core.cpp:117:\n'
 'Exception from src/inference/src/dev/plugin.cpp:54:\n'
 "Check 'data.size() == OC' failed at "
 'src/plugins/intel_cpu/src/dnnl_postops_composer.cpp:483:\n'
 'data size: 4 OC: 0\n'
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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'dynamic'))
