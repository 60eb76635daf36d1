#!/usr/bin/env python3
"""tensorrt-rtx: exception in import: ParserError: Assertion failed: (inputSize % N == N): N-bit quantization requies an even number of elements.

Needs tensorrt-rtx 1.7.1.116, device none, builds for SM89, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import ml_dtypes  # noqa: F401 (comes with onnx; NumPy learns bfloat16 and the like from it)
import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 13,
   opset_import: ["" : 26],
   producer_name: "nnfuzz"
>
nnfuzz (int4[1] p2, float[1] p1) => (float[1] v3) {
   [DequantizeLinear_1] v3 = DequantizeLinear <axis: int = 0> (p2, p1, p2)
}"""
INPUTS = {
    'p2': np.array([0.0], 'int4'),
    'p1': np.array([0.30000001192092896], 'float32'),
}


def run(model, inputs, level):
    import tensorrt_rtx as trt

    logger = trt.Logger(trt.Logger.ERROR)  # it prints what goes wrong
    builder = trt.Builder(logger)
    typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    network = builder.create_network(0 if typed is None else 1 << int(typed))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model):
        error = parser.get_error(0)
        raise RuntimeError(f"{error.code()} at {error.node_operator()}: {error.desc()}")
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    config.builder_optimization_level = int(level[1:])
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM89, 0)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("the builder returned nothing; what it logged stands above")
    return {}  # built; to run it takes a GPU


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at O0, stage import: '
 'nnfuzz.backends.tensorrt.ParserError: INVALID_NODE at DequantizeLinear in '
 'onnxOpImporters.cpp:QuantDequantLinearHelper: Assertion failed: (inputSize % 2 == '
 '0): 4-bit quantization requies an even number of elements.'), flush=True)
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
