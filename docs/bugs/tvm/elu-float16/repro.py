#!/usr/bin/env python3
"""tvm: exception in import: TypeError: Binary operators must have the same datatype for both operands. However, R.subtract(...) uses datatype T.float32 on the LH\u2026

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
nnfuzz (float16 v1) => (float16 v2) 
   <float16 c_1 =  {0}, float16 c_2 =  {15360}>
{
   [Min_3] Min_3 = Min (v1, c_1)
   [Div_4] Div_4 = Div (Min_3, c_2)
   [Elu_5] Elu_5 = Elu <alpha: float = 1> (Div_4)
   [Max_6] Max_6 = Max (v1, c_1)
   [Mul_7] Mul_7 = Mul (Elu_5, c_2)
   [Add_8] v2 = Add (Max_6, Mul_7)
}"""
INPUTS = {
    'v1': np.array(0.0, 'float16'),
}


def run(model, inputs, level):
    import tvm
    from tvm import relax
    import onnx
    from tvm.relax.frontend.onnx import from_onnx

    graph = onnx.load_model_from_string(model).graph
    module = from_onnx(onnx.load_model_from_string(model))
    weights = {tensor.name for tensor in graph.initializer}
    arrays = [inputs[value.name] for value in graph.input if value.name not in weights]
    outputs = [value.name for value in graph.output]
    device = tvm.cpu()
    if level == "O0":
        target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
        pipeline = "default"
    else:
        cpu = tvm.target.codegen.llvm_get_system_cpu()
        target = tvm.target.Target({"kind": "llvm", "mcpu": cpu})
        pipeline = relax.backend.cpu_generic.get_default_pipeline(target)
    opt_level = 3 if level == "O3" else 0
    with target, tvm.transform.PassContext(opt_level=opt_level):
        program = relax.build(module, target, relax_pipeline=pipeline, exec_mode='bytecode')
    machine = relax.VirtualMachine(program, device)
    main = machine["main"]
    result = main(*(tvm.runtime.tensor(array, device) for array in arrays))
    results = [result] if len(outputs) == 1 else result
    return {name: value.numpy() for name, value in zip(outputs, results)}


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at O0, stage import: TypeError: Binary '
 'operators must have the same datatype for both operands.  However, '
 'R.subtract(R.const(1.0, "float32"), lv5) uses datatype T.float32 on the LHS (Type of '
 'R.Tensor((), dtype="float32")), and datatype T.float16 on the RHS (Type of '
 'R.Tensor((), dtype="float16")).'), flush=True)
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
