#!/usr/bin/env python3
"""tvm: exception in execute (all levels): RuntimeError: Check failed: input_shape.size(...) == size (N vs. N) : ErrorContext(match_cast, ty=R.Tensor(...)) match_\u2026

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
nnfuzz (float[1,1] v4) => (float[1] v5) 
   <int64[1] c_5 =  {1}, int64[1] c_7 =  {0}, int64[1] c_8 =  {1}, int64[1] c_9 =  {0}, int64[1] c_13 =  {1}, int64[1] c_15 =  {0}, int64[1] c_16 =  {1}, int64[1] c_17 =  {0}, int64[1] c_21 =  {1}, int64[1] c_23 =  {0}, int64[1] c_24 =  {1}, int64[1] c_25 =  {0}, int64[1] c_29 =  {1}, int64[1] c_31 =  {0}, int64[1] c_32 =  {1}, int64[1] c_33 =  {0}>
{
   [Unique_1] Unique_1, Unique_2, Unique_3, Unique_4 = Unique <sorted: int = 0> (v4)
   [ConstantOfShape_6] ConstantOfShape_6 = ConstantOfShape <value: tensor = float[1] {0}> (c_5)
   [Concat_10] Concat_10 = Concat <axis: int = 0> (Unique_1, ConstantOfShape_6)
   [Slice_11] Slice_11 = Slice (Concat_10, c_7, c_8, c_9)
   [Reshape_12] v5 = Reshape (Slice_11, c_5)
   [ConstantOfShape_14] ConstantOfShape_14 = ConstantOfShape <value: tensor = int64[1] {0}> (c_13)
   [Concat_18] Concat_18 = Concat <axis: int = 0> (Unique_2, ConstantOfShape_14)
   [Slice_19] Slice_19 = Slice (Concat_18, c_15, c_16, c_17)
   [Reshape_20] v6 = Reshape (Slice_19, c_13)
   [ConstantOfShape_22] ConstantOfShape_22 = ConstantOfShape <value: tensor = int64[1] {0}> (c_21)
   [Concat_26] Concat_26 = Concat <axis: int = 0> (Unique_3, ConstantOfShape_22)
   [Slice_27] Slice_27 = Slice (Concat_26, c_23, c_24, c_25)
   [Reshape_28] v7 = Reshape (Slice_27, c_21)
   [ConstantOfShape_30] ConstantOfShape_30 = ConstantOfShape <value: tensor = int64[1] {0}> (c_29)
   [Concat_34] Concat_34 = Concat <axis: int = 0> (Unique_4, ConstantOfShape_30)
   [Slice_35] Slice_35 = Slice (Concat_34, c_31, c_32, c_33)
   [Reshape_36] v8 = Reshape (Slice_35, c_29)
}"""
INPUTS = {
    'v4': np.array([[0.0]], 'float32'),
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
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage execute: RuntimeError: '
 'Check failed: input_shape.size() == size (2 vs. 1) : ErrorContext(match_cast, '
 'ty=R.Tensor((inverse_numbers,), dtype="int64"))  match_cast shape size mismatch.'), flush=True)
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
