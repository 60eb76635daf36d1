#!/usr/bin/env python3
"""openvino: MeanVarianceNormalization + Pad + Identity + Slice: wrong shape, [0] for [1] (all levels)

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; the other files of its folder.

    python repro.py [LEVEL]        levels: O0, O3, dynamic; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run or fails otherwise.
"""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import numpy as np
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

HERE = Path(__file__).resolve().parent
OUTPUT, DTYPE, SHAPE = 'v16', 'float32', (1,)


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


run_packed = run
INSIDE = [{'c_12': ('numbers', 'int64', [-9223372036854775807])}, {}]  # maps and texts of the model with the tensors in them, and given numbers


def run(model, inputs, level):
    inputs = {**inputs}
    for name, (kind, dtype, *tensor, given) in INSIDE[0].items():
        if kind == "numbers":
            inputs[name] = np.array(given, dtype)
        else:
            inputs[name] = inputs.pop(*tensor).astype(str).astype(object)
    outputs = {**run_packed(model, inputs, level)}
    for name, (kind, dtype, tensor, keys) in INSIDE[1].items():
        items = outputs.pop(name)
        if kind == "text":
            outputs[tensor] = numbers(name, items, dtype)
        else:
            outputs[tensor] = np.array([[row[key] for key in keys] for row in items], dtype)
    return outputs


def numbers(name, strings, dtype):
    try:
        return strings.astype(dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"output {name!r} has no numbers: {error}") from error


def load():
    with np.load(HERE / "inputs.npz", allow_pickle=False) as archive:
        inputs = {key: archive[key] for key in archive.files}
    return (HERE / 'model.onnx').read_bytes(), inputs


def main(level):
    try:
        outputs = run(*load(), level)
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    if OUTPUT not in outputs:
        print(f"{level}: there is no output {OUTPUT!r}")
        return 125
    actual = np.asarray(outputs[OUTPUT])
    print(f"{level}: {OUTPUT} is {actual.dtype}{list(actual.shape)},", end=" ")
    print(f"expected {DTYPE}{list(SHAPE)}")
    if (str(actual.dtype), actual.shape) != (DTYPE, SHAPE):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
