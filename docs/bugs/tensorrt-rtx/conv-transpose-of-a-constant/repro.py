#!/usr/bin/env python3
"""tensorrt-rtx: exception in compile: BuilderError: IBuilder::buildSerializedNetwork: Error Code N: Myelin ([myelin_graph.h: attachExceptionMsgToGraph] MyelinChe\u2026

Needs tensorrt-rtx 1.7.1.116, device none, builds for SM89, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 9,
   opset_import: ["" : 20],
   producer_name: "nnfuzz"
>
nnfuzz (float[2,1,1,1] p1) => (float[1,2,1,1] v2) 
   <float[1,2,1,1] p0 =  {0,0}>
{
   [ConvTranspose_1] v2 = ConvTranspose <kernel_shape: ints = [1, 1], group: int = 2, strides: ints = [1, 1], dilations: ints = [2, 1], pads: ints = [0, 0, 0, 0], output_padding: ints = [0, 0]> (p0, p1)
}"""
INPUTS = {
    'p1': np.array([[[[0.0]]], [[[0.0]]]], 'float32'),
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
    print(('Expected: the model compiles and runs. Seen at O0, stage compile: '
 'nnfuzz.backends.tensorrt.BuilderError: IBuilder::buildSerializedNetwork: Error Code '
 '1: Myelin ([myelin_graph.h:1295: attachExceptionMsgToGraph] MyelinCheckException: '
 'deconv_lowering.cpp:34: CHECK(op->operands()[0]->is_tensor()) failed.  In '
 'compileGraph at /_src/optimizer/myelin/codeGenerator.cpp:2012)'), flush=True)
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
