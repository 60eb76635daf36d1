#!/usr/bin/env python3
"""tvm: exception in compile: InternalError: CodeGenVM cannot emit this Relax operator directly. Run the appropriate lowering pass, or route the operator to an ex\u2026

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
nnfuzz (float[1,1,1] p15, float[1,1,4] p14) => (int64[1,3] p8) 
   <int64 c_1 =  {1}, float c_2 =  {0.7}, float c_3 =  {0.25}, int64[1,3] c_5 =  {-1,-1,-1}, int64[1] c_7 =  {0}, int64[1] c_8 =  {1}, int64[1] c_9 =  {0}>
{
   [NonMaxSuppression_4] NonMaxSuppression_4 = NonMaxSuppression <center_point_box: int = 0> (p14, p15, c_1, c_2, c_3)
   [Concat_6] Concat_6 = Concat <axis: int = 0> (NonMaxSuppression_4, c_5)
   [Slice_10] p8 = Slice (Concat_6, c_7, c_8, c_9)
}"""
INPUTS = {
    'p15': np.array([[[0.0]]], 'float32'),
    'p14': np.array([[[0.0, 0.0, 0.0, 0.0]]], 'float32'),
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
    print(('Expected: the model compiles and runs. Seen at O0, stage compile: '
 'tvm.error.InternalError: CodeGenVM cannot emit this Relax operator directly. Run the '
 'appropriate lowering pass, or route the operator to an external codegen before VM '
 'codegen.\n'
 'Offending call:\n'
 'R.concat((alloc6, metadata["ir.GenericConst"][0]), axis=0)\n'
 '# Metadata omitted. Use show_meta=True in script() method to show it.'), flush=True)
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
