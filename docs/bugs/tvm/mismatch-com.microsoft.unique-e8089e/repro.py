#!/usr/bin/env python3
"""tvm: Unique: wrong values (all levels)

Needs tvm 0.27.0.post1, llvm 22, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run or fails otherwise.
"""

from __future__ import annotations

import sys

try:
    import numpy as np
    from onnx import parser
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

MODEL = """
<
   ir_version: 7,
   opset_import: ["" : 14, "com.microsoft" : 1],
   producer_name: "nnfuzz"
>
nnfuzz (float[2] p0) => (float[2] v1) 
   <int64[1] c_4 =  {2}, int64[1] c_6 =  {0}, int64[1] c_7 =  {2}, int64[1] c_8 =  {0}>
{
   ["com.microsoft.Unique_1"] "com.microsoft.Unique_1", "com.microsoft.Unique_2", "com.microsoft.Unique_3" = com.microsoft.Unique (p0)
   [ConstantOfShape_5] ConstantOfShape_5 = ConstantOfShape <value: tensor = float[1] {0}> (c_4)
   [Concat_9] Concat_9 = Concat <axis: int = 0> ("com.microsoft.Unique_1", ConstantOfShape_5)
   [Slice_10] Slice_10 = Slice (Concat_9, c_6, c_7, c_8)
   [Reshape_11] v1 = Reshape (Slice_10, c_4)
}"""
INPUTS = {
    'p0': np.array([1.0, 0.0], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v1', 'float32', (2,)
INDEX = (1,)  # the worst of 2 wrong elements
EXPECTED = 0.0  # computed in float64
LOW, HIGH = -1.401298464324817e-45, 1.401298464324817e-45  # what rounding can account for


def run(model, inputs, level):
    import tvm
    from tvm import relax
    import onnx
    from tvm.relax.frontend.onnx import from_onnx

    graph = onnx.load_model_from_string(model).graph
    module = from_onnx(onnx.load_model_from_string(model))
    weights = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in weights]
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
    arrays = [inputs[name] for name in names]
    result = main(*(tvm.runtime.tensor(array, device) for array in arrays))
    results = [result] if len(outputs) == 1 else result
    return {name: value.numpy() for name, value in zip(outputs, results)}


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    try:
        outputs = run(*load(), level)
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    if OUTPUT not in outputs:
        print(f"{level}: there is no output {OUTPUT!r}")
        return 125
    actual = np.asarray(outputs[OUTPUT])
    print(f"{level}: {OUTPUT} is {actual.dtype}{list(actual.shape)},", end=" ")
    print(f"expected {DTYPE}{list(SHAPE)}")
    if (str(actual.dtype), actual.shape) != (DTYPE, SHAPE):
        return 125
    value = type(EXPECTED)(actual[INDEX])  # NumPy would round the bounds to its dtype
    print(f"element {INDEX}: actual {value}, expected {EXPECTED} in [{LOW}, {HIGH}]")
    return 0 if LOW <= value <= HIGH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
