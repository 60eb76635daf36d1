#!/usr/bin/env python3
"""openvino: Expand: Fatal Python error: Floating point exception at Expand (SIGFPE in compile, O0, O3 only)

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3, dynamic; default: O0

Exit code 0 once it is fixed, 125 where it cannot run; while it reproduces, SIGFPE ends it.
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
   ir_version: 9,
   opset_import: ["" : 19],
   producer_name: "nnfuzz"
>
nnfuzz (float[25,29,0] v3) => (float[4,25,29,0] v10) 
   <int64 c_2 =  {0}, int64[1] c_4 =  {0}, int64[1] c_6 =  {-21}>
{
   [Shape_1] Shape_1 = Shape (v3)
   [Gather_3] Gather_3 = Gather (Shape_1, c_2)
   [Unsqueeze_5] Unsqueeze_5 = Unsqueeze (Gather_3, c_4)
   [Add_7] Add_7 = Add (Unsqueeze_5, c_6)
   [Shape_8] Shape_8 = Shape <start: int = 0, end: int = 3> (v3)
   [Concat_9] Concat_9 = Concat <axis: int = 0> (Add_7, Shape_8)
   [Expand_10] v10 = Expand (v3, Concat_9)
}"""
INPUTS = {
    'v3': np.array([], 'float32').reshape((25, 29, 0)),
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
    proto = onnx.load(model) if isinstance(model, str) else onnx.load_model_from_string(model)
    for value in proto.graph.output:
        tensor = request.get_tensor(value.name)
        type_ = value.type.tensor_type.elem_type
        packed = onnx.TensorProto(data_type=type_, dims=list(tensor.shape))
        packed.raw_data = tensor.data.tobytes()
        outputs[value.name] = numpy_helper.to_array(packed)
    return outputs


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage compile: the process is '
 'killed by SIGFPE'), flush=True)
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
