#!/usr/bin/env python3
"""openvino: Reshape + DFT: The last dimension of input data must be 2 (execute, all levels)

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; the other files of its folder.

    python repro.py [LEVEL]        levels: O0, O3, dynamic; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run or fails otherwise.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

try:
    import numpy as np
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

HERE = Path(__file__).resolve().parent


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
INSIDE = [{'c_1': ('numbers', 'int64', [-1, 1, 1])}, {}]  # maps and texts of the model with the tensors in them, and given numbers


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
    seen = [('RuntimeError',
  'Exception from Exception from Caught exception Exception from CPU DFT node with '
  'name Check input_shape input_rank compatible failed at While validating node opset '
  'DFT opset Reshape Reshape_ opset Constant Constant_ with friendly_name Shape '
  'inference input shapes The last dimension of')]
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage execute: RuntimeError: '
 'Exception from src/inference/src/cpp/infer_request.cpp:246:\n'
 'Exception from src/bindings/python/src/pyopenvino/core/infer_request.hpp:55:\n'
 'Caught exception: Exception from src/plugins/intel_cpu/src/node.cpp:794:\n'
 "[CPU] DFT node with name 'v11' Check 'input_shape[input_rank - 1].compatible(2)' "
 'failed at\n'
 '[... 17 characters left out ...]\n'
 'nference/include/fft_common_validation.hpp:34:\n'
 "While validating node 'opset7::DFT v11 (opset1::Reshape Reshape_2[0]:f32[?,?,?], "
 "opset1::Constant Constant_7[0]:i32[1]) -> (f32[?,?,?])' with friendly_name 'v11':\n"
 'Shape inference input shapes {{1,1,1},{1}}\n'
 'The last dimension of input data must be 2.\n'
 '\n'
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
