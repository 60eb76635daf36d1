#!/usr/bin/env python3
"""tvm: exception in compile: InternalError: Check failed: fb->value != N (N vs. N) : Divide by zero

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
nnfuzz (float[1,1,1,1] p0) => (float[1,1,1,1] v1) 
   <float[4] c_1 =  {1,1,1,1}>
{
   [Resize_2] v1 = Resize <mode: string = "cubic", coordinate_transformation_mode: string = "align_corners", cubic_coeff_a: float = -0.5, exclude_outside: int = 0> (p0, "", c_1)
}"""
INPUTS = {
    'p0': np.array([[[[0.0]]]], 'float32'),
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
    print(('Expected: the model compiles and runs. Seen at O0, stage compile: '
 'tvm.error.InternalError: Check failed: fb->value != 0 (0 vs. 0) : Divide by zero'), flush=True)
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
