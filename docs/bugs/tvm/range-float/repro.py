#!/usr/bin/env python3
"""tvm: wrong shape at Range

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
nnfuzz (float[1] p0) => (float[1] v1) 
   <float c_1 =  {0}, float c_2 =  {0.25}, int64 c_4 =  {0}, float c_7 =  {0.25}, float c_9 =  {0}>
{
   [Shape_3] Shape_3 = Shape (p0)
   [Gather_5] Gather_5 = Gather (Shape_3, c_4)
   [Cast_6] Cast_6 = Cast <to: int = 1> (Gather_5)
   [Mul_8] Mul_8 = Mul (Cast_6, c_7)
   [Add_10] Add_10 = Add (Mul_8, c_9)
   [Cast_11] Cast_11 = Cast <to: int = 1> (Add_10)
   [Range_12] v1 = Range (c_1, Cast_11, c_2)
}"""
INPUTS = {
    'p0': np.array([0.0], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v1', 'float32', (1,)


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
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
