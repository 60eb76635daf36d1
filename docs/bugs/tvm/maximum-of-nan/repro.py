#!/usr/bin/env python3
"""tvm: Clip: wrong values (all levels)

Needs tvm 0.27.0.post1, llvm 22, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run.
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
   opset_import: ["" : 13],
   producer_name: "nnfuzz"
>
nnfuzz (float v6) => (float v7) 
   <float c_1 =  {0}, float c_2 =  {0}>
{
   [Clip_3] v7 = Clip (v6, c_1, c_2)
}"""
INPUTS = {
    'v6': np.array(np.nan, 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v7', 'float32', ()
INDEX = ()  # the worst of 1 wrong elements
EXPECTED = LOW = HIGH = float('nan')


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
    try:
        outputs = run(*load(), level)
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
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
    return 0 if np.isnan(value) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
