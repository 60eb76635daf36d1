#!/usr/bin/env python3
"""openvino: BatchNormalization: Input element types do not match. (RuntimeError in import)

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run.
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
   ir_version: 13,
   opset_import: ["" : 26],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,1] p0, double[1] p1) => (float[1,1] v5) {
   [BatchNormalization_1] v5 = BatchNormalization <epsilon: float = 1e-05> (p0, p1, p1, p1, p1)
}"""
INPUTS = {
    'p0': np.array([[0.0]], 'float32'),
    'p1': np.array([0.0], 'float64'),
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
    print(('Expected: the model compiles and runs. Seen at O0, stage import: RuntimeError: '
 'Exception from src/inference/src/cpp/core.cpp:105:\n'
 "Check 'false' failed at "
 'src/frontends/common_translators/src/unconverted_ops_report.cpp:151:\n'
 'FrontEnd API failed with OpConversionFailure:\n'
 "Model wasn't fully converted. Failed operations detailed log:\n"
 '-- BatchNormalization-26 with a message:\n'
 'While v\n'
 '[... 266 characters left out ...]\n'
 '[0]:f32[1,1], opset1::Parameter p1[0]:f64[1], opset1::Parameter p1[0]:f64[1], '
 "opset1::Parameter p1[0]:f64[1], opset1::Parameter p1[0]:f64[1]) -> (dynamic[...])' "
 "with friendly_name 'BatchNormInference_3':\n"
 'Input element types do not match.\n'
 '\n'
 'Summary:\n'
 '-- Conversion is failed for: BatchNormalization-26\n'
 '\n'), flush=True)
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
