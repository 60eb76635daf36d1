#!/usr/bin/env python3
"""tensorrt-rtx: exception in import (all levels): ParserError: Invalid Node - LSTM_N ITensor::getDimensions: Error Code N: Shape Error (broadcast dimensions must\u2026

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
nnfuzz (float[3,2,1] v5, float[2,4,1] p9) => (float[3,2,2,1] v15) 
   <int32[3] c_1 =  {1,1,1}>
{
   [LSTM_2] v15, v16, LSTM_4 = LSTM <direction: string = "bidirectional", hidden_size: int = 1, layout: int = 1> (v5, p9, p9, "", c_1, v5)
}"""
INPUTS = {
    'v5': np.array([[[0.0], [0.0]], [[0.0], [0.0]], [[0.0], [0.0]]], 'float32'),
    'p9': np.array([[[0.0], [0.0], [0.0], [0.0]], [[0.0], [0.0], [0.0], [0.0]]], 'float32'),
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
    print(('Expected: the model compiles and runs. Seen at O0, O5, stage import: '
 'nnfuzz.backends.tensorrt.ParserError: INVALID_NODE at LSTM in '
 'ModelImporter.cpp:parseNode: Invalid Node - LSTM_2\n'
 'ITensor::getDimensions: Error Code 4: Shape Error (broadcast dimensions must be '
 'conformable In op at /_src/optimizer/common/shape/shapeContext.cpp:2699)\n'
 '[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (In ca\n'
 '[... 1071 characters left out ...]\n'
 'ntime (In catchCudaError at /_src/common/dispatch/checkMacros.cpp:250 (cudaError 35: '
 'CUDA driver version is insufficient for CUDA runtime version))\n'
 'ITensor::getDimensions: Error Code 4: Shape Error (broadcast dimensions must be '
 'conformable In op at /_src/optimizer/common/shape/shapeContext.cpp:2699)'), flush=True)
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
