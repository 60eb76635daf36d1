#!/usr/bin/env python3
"""tvm: wrong value at ResizeLinear (all levels)

Needs tvm 0.27.0.post1, llvm 22, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

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
nnfuzz (double[1,1,1] v9) => (double[1,1,1] v10) 
   <float[3] c_1 =  {1,1,1}>
{
   [Resize_2] v10 = Resize <mode: string = "linear", coordinate_transformation_mode: string = "half_pixel"> (v9, "", c_1)
}"""
INPUTS = {
    'v9': np.array([[[16.2]]], 'float64'),
}
OUTPUT, DTYPE, SHAPE = 'v10', 'float64', (1, 1, 1)
INDEX = (0, 0, 0)  # the worst of 1 wrong elements
EXPECTED = 16.2  # computed in float64
LOW, HIGH = 16.199999999999925, 16.200000000000074  # what rounding can account for


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
    outputs = run(*load(), level)
    if OUTPUT not in outputs:
        print(f"{level}: there is no output {OUTPUT!r}")
        return 1
    actual = np.asarray(outputs[OUTPUT])
    print(f"{level}: {OUTPUT} is {actual.dtype}{list(actual.shape)},", end=" ")
    print(f"expected {DTYPE}{list(SHAPE)}")
    if (str(actual.dtype), actual.shape) != (DTYPE, SHAPE):
        return 1
    value = type(EXPECTED)(actual[INDEX])  # NumPy would round the bounds to its dtype
    print(f"element {INDEX}: actual {value}, expected {EXPECTED} in [{LOW}, {HIGH}]")
    return 0 if LOW <= value <= HIGH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
