#!/usr/bin/env python3
"""openvino: crash in compile (all levels): SIGABRT: double free or corruption (out)

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3, dynamic; default: O0

Exit code 0 once it is fixed; while it reproduces, SIGABRT ends it, or the exit code is 1 if the process
outlives the damage to its heap.
"""

import sys

import numpy as np
from onnx import TensorProto, helper

OUTPUT, SHAPE = 'v6', (64,)


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
    """ConstantOfShape of 64 times the int4 1; the text form of ONNX has no tensors of int4."""
    value = helper.make_tensor("value", TensorProto.INT4, [1], [1])
    shape = helper.make_tensor("c_5", TensorProto.INT64, [1], SHAPE)
    node = helper.make_node("ConstantOfShape", ["c_5"], [OUTPUT], value=value)
    output = helper.make_tensor_value_info(OUTPUT, TensorProto.INT4, SHAPE)
    graph = helper.make_graph([node], "nnfuzz", [], [output], [shape])
    opsets = [helper.make_opsetid("", 26)]
    return helper.make_model(graph, ir_version=13, opset_imports=opsets).SerializeToString(), {}


def main(level):
    print(('Expected: the model compiles and runs. Seen at O0, O3, dynamic, stage compile: the process is '
 'killed by SIGABRT'), flush=True)
    model, inputs = load()
    try:
        outputs = run(model, inputs, level)
    except Exception as error:
        print(f"{level}: {type(error).__module__}.{type(error).__qualname__}: {error}")
        return 1
    actual = np.asarray(outputs[OUTPUT]).astype(int)
    wrong = int((actual != 1).sum())
    print(f"{level}: the model compiles and runs, {wrong} of {actual.size} elements are not 1")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
