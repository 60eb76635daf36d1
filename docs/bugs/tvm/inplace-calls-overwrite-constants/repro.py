#!/usr/bin/env python3
"""tvm: FoldConstant: ArgMax + Gelu: wrong values, only at call 2 (O1+DataflowUseInplaceCalls only)

Needs tvm 0.27.0.post1, llvm 22, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O1+DataflowUseInplaceCalls; default: O1+DataflowUseInplaceCalls

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
   opset_import: ["" : 13],
   producer_name: "nnfuzz"
>
nnfuzz (float[1] v5) => (int64 v9, float[1] v14) 
   <float[1] p12 =  {1}, float c_2 =  {1}, float c_3 =  {0.5}, float c_4 =  {1.4142135}>
{
   [ArgMax_1] v9 = ArgMax <keepdims: int = 0, axis: int = 0, select_last_index: int = 0> (v5)
   [Div_5] Div_5 = Div (p12, c_4)
   [Erf_6] Erf_6 = Erf (Div_5)
   [Mul_7] Mul_7 = Mul (p12, c_3)
   [Add_8] Add_8 = Add (Erf_6, c_2)
   [Mul_9] v14 = Mul (Mul_7, Add_8)
}"""
INPUTS = {
    'v5': np.array([0.0], 'float32'),
    'v5_at1': np.array([0.0], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v14_at1', 'float32', (1,)
INDEX = (0,)  # the worst of 1 wrong elements
EXPECTED = 0.8413447737693787  # computed in float64
LOW, HIGH = 0.8413442096267401, 0.841345282510346  # what rounding can account for


DRAWN = {
    'O1+DataflowUseInplaceCalls': (
        [
            lambda tvm, relax: relax.transform.DataflowUseInplaceCalls(),
        ],
        {},
        {},
    ),
}


def compiled(model, level):
    import tvm
    from tvm import relax
    import onnx
    from tvm.relax.frontend.onnx import from_onnx

    graph = onnx.load_model_from_string(model).graph
    module = from_onnx(onnx.load_model_from_string(model))
    weights = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in weights]
    outputs = [value.name for value in graph.output]
    passes, config, options = DRAWN.get(level, ((), {}, {}))
    level = level.partition("+")[0]
    machine_code = {"opt-level": 0}
    if level != "O0":
        machine_code = {"mcpu": tvm.target.codegen.llvm_get_system_cpu()}
    exec_mode = options.get("exec_mode", "bytecode")
    machine_code.update((k, v) for k, v in options.items() if k != "exec_mode")
    device = tvm.cpu()
    if level == "O0":
        target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
        pipeline = "default"
    else:
        cpu = tvm.target.codegen.llvm_get_system_cpu()
        target = tvm.target.Target({"kind": "llvm", "mcpu": cpu})
        pipeline = relax.backend.cpu_generic.get_default_pipeline(target)
    target = tvm.target.Target({"kind": "llvm", **machine_code})
    with target, tvm.transform.PassContext(opt_level=3, config=config):
        for make in passes:
            module = make(tvm, relax)(module)
    opt_level = 3 if level == "O3" else 0
    with target, tvm.transform.PassContext(opt_level=opt_level, config=config):
        program = relax.build(module, target, relax_pipeline=pipeline, exec_mode=exec_mode)
    machine = relax.VirtualMachine(program, device)
    main = machine["main"]

    def call(inputs):
        arrays = [inputs[name] for name in names]
        result = main(*(tvm.runtime.tensor(array, device) for array in arrays))
        results = [result] if len(outputs) == 1 else result
        return {name: value.numpy() for name, value in zip(outputs, results)}

    return call


def run_calls(model, inputs, level):
    """Calls one program several times: NAME_atK belongs to call K, NAME to call 0."""
    calls = {}
    for key, array in inputs.items():
        name, _, k = key.partition("_at")
        calls.setdefault(int(k or 0), {})[name] = array
    call = compiled(model, level)
    results = {k: call(part) for k, part in sorted(calls.items())}
    return {
        f"{name}_at{k}" if k else name: value
        for k, part in results.items()
        for name, value in part.items()
    }


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    try:
        outputs = run_calls(*load(), level)
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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O1+DataflowUseInplaceCalls'))
