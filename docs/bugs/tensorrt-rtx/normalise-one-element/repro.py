#!/usr/bin/env python3
"""tensorrt-rtx: exception in compile (all levels): BuilderError: IBuilder::buildSerializedNetwork: Error Code N: Myelin ([shape.cpp: ~op_constraints_msg_streamer\u2026

Needs tensorrt-rtx 1.7.1.116, device none, builds for SM89, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O5; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 13,
   opset_import: ["" : 26],
   producer_name: "nnfuzz"
>
nnfuzz (float[2] p13, float[1,2,1] v10) => (float[1,2,1] v14) {
   [InstanceNormalization_1] v14 = InstanceNormalization <epsilon: float = 0.1> (v10, p13, p13)
}"""
INPUTS = {
    'p13': np.array([0.0, 0.0], 'float32'),
    'v10': np.array([[[0.0], [0.0]]], 'float32'),
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
    print(('Expected: the model compiles and runs. Seen at O0, O5, stage compile: '
 'nnfuzz.backends.tensorrt.BuilderError: IBuilder::buildSerializedNetwork: Error Code '
 '1: Myelin ([shape.cpp:175: ~op_constraints_msg_streamer_t] \n'
 'Error during shape inference of\n'
 'InstanceNormalization_1_normalized : f32[] = inorm(v10, '
 'InstanceNormalization_1_sqz_scale, InstanceNormalization_1_sqz_bias), '
 'epsilon=0.10000000149011612\n'
 'Error is:\n'
 'Total number of elements within given the first two dimensions must be > 1 but got1 '
 'In compileGraph at /_src/optimizer/myelin/codeGenerator.cpp:2012)'), flush=True)
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
