#!/usr/bin/env python3
"""tvm: exception in import: ValueError: broadcast_to expects the input shape to have the number of ndim at least as the input tensor's. However, the given tensor\u2026

Needs tvm 0.27.0.post1, llvm 22, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 8,
   opset_import: ["" : 18],
   producer_name: "nnfuzz"
>
nnfuzz (float p0) => (float v1) {
   [Shape_1] Shape_1 = Shape (p0)
   [ConstantOfShape_2] v1 = ConstantOfShape <value: tensor = float[1] {0}> (Shape_1)
}"""
INPUTS = {
    'p0': np.array(0.0, 'float32'),
}


def run(model, inputs, level):
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    graph = onnx.load_model_from_string(model).graph
    module = from_onnx(onnx.load_model_from_string(model))
    device = tvm.cpu()
    if level == "O0":
        target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
        pipeline = "default"
    else:
        cpu = tvm.target.codegen.llvm_get_system_cpu()
        target = tvm.target.Target({"kind": "llvm", "mcpu": cpu})
        pipeline = relax.backend.cpu_generic.get_default_pipeline(target)
    with target, tvm.transform.PassContext(opt_level=3 if level == "O3" else 0):
        program = relax.build(module, target, relax_pipeline=pipeline, exec_mode='bytecode')
    main = relax.VirtualMachine(program, device)["main"]
    weights = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in weights]
    result = main(*(tvm.runtime.tensor(inputs[name], device) for name in names))
    results = [result] if len(graph.output) == 1 else result
    return {output.name: value.numpy() for output, value in zip(graph.output, results)}


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at O0, stage import: ValueError: '
 'broadcast_to expects the input shape to have the number of ndim at least as the '
 "input tensor's. However, the given tensor has ndim 1 while the target shape has ndim "
 '0'), flush=True)
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
