#!/usr/bin/env python3
"""openvino: GroupQueryAttention, num_heads=2, kv_num_heads=1, causal=0: ScatterUpdate indices value 1 is out of bounds for axis 2 of size 1 (compile, O0, O3 only)

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3, dynamic; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run or fails otherwise.
"""

from __future__ import annotations

import re
import sys

try:
    import numpy as np
    from onnx import parser
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

MODEL = """
<
   ir_version: 13,
   opset_import: ["" : 26, "com.microsoft" : 1],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,1,8] p47, float[1,1,16] v40, float[1,1,1,8] p49) => (float[1,1,16] v52) 
   <float[1,1,8] p48 =  {0,0,0,0,0,0,0,0}, float[1,1,1,8] p50 =  {0,0,0,0,0,0,0,0}, int32[1] c_1 =  {1}, int32 c_2 =  {2}>
{
   ["com.microsoft.GroupQueryAttention_3"] v52, v53, v54 = com.microsoft.GroupQueryAttention <num_heads: int = 2, kv_num_heads: int = 1, causal: int = 0> (v40, p47, p48, p49, p50, c_1, c_2)
}"""
INPUTS = {
    'p47': np.array([[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]], 'float32'),
    'v40': np.array([[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]], 'float32'),
    'p49': np.array([[[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]]], 'float32'),
}


def run(model, inputs, level):
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import numpy_helper

    config = {**({'INFERENCE_NUM_THREADS': '1', 'NUM_STREAMS': '1'} if level == "default" else {'INFERENCE_PRECISION_HINT': 'f32', 'DYNAMIC_QUANTIZATION_GROUP_SIZE': '0', 'KV_CACHE_PRECISION': 'f32', 'INFERENCE_NUM_THREADS': '1', 'NUM_STREAMS': '1'}), **{'O0': {'LP_TRANSFORMS_MODE': False, 'SNIPPETS_MODE': 'DISABLE'}, 'O3': {}, 'dynamic': {}, 'streams': {'INFERENCE_NUM_THREADS': 2, 'NUM_STREAMS': 2}, 'cached': {}, 'default': {}}[level]}
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
    seen = [('RuntimeError',
  'Exception from Exception from Check slice_index static_cast uint _t slice_index '
  'axis_size failed at ScatterUpdate indices value is out of bounds for axis of size')]
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage compile: RuntimeError: '
 'Exception from src/inference/src/cpp/core.cpp:117:\n'
 'Exception from src/inference/src/dev/plugin.cpp:54:\n'
 "Check 'slice_index >= 0 && static_cast<uint64_t>(slice_index) < axis_size' failed at "
 'src/core/reference/include/openvino/reference/scatter_update.hpp:100:\n'
 'ScatterUpdate indices value 1 is out of bounds for axis 2 of size 1\n'
 '\n'
 '\n'), flush=True)
    try:
        model, inputs = load()
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    try:
        run(model, inputs, level)
    except (ImportError, AttributeError, FileNotFoundError) as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    except Exception as error:
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        print(f"{level}: {name}: {error}")
        words = re.findall('[A-Za-z_]{2,}', re.sub('[^\\s\'\\":,()<>|]*/[^\\s\'\\":,()<>|]*|\\\\[xuU][0-9a-f]+|0x[0-9a-fA-F]+|\\bTMP\\b', " ", str(error)))
        return 1 if (type(error).__name__, " ".join(words[:40])) in seen else 125
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
