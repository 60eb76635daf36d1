#!/usr/bin/env python3
"""tvm: Min: Check failed: (res != std::string::npos) is false: Invalid SLayout:can't find S in source layoutABCD (InternalError in compile, O1+ConvertLayout only)

Needs tvm 0.27.0.post1, llvm 22, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O1+ConvertLayout; default: O1+ConvertLayout

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
nnfuzz (float[1,1,1] p0) => (float[1,1,1] v8) {
   [Min_1] v8 = Min (p0)
}"""
INPUTS = {
    'p0': np.array([[[0.0]]], 'float32'),
}


DRAWN = {
    'O1+ConvertLayout': (
        [
            lambda tvm, relax: relax.transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}),
        ],
        {},
        {},
    ),
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
    passes, config, options = DRAWN.get(level, ((), {}, {}))
    level = level.partition("+")[0]
    machine_code = {"opt-level": 0}
    if level != "O0":
        machine_code = {"mcpu": tvm.target.codegen.llvm_get_system_cpu()}
    exec_mode = options.get("exec_mode", 'bytecode')
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
    result = main(*(tvm.runtime.tensor(array, device) for array in arrays))
    results = [result] if len(outputs) == 1 else result
    return {name: value.numpy() for name, value in zip(outputs, results)}


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at O1+ConvertLayout, stage compile: '
 'tvm.error.InternalError: Check failed: (res != std::string::npos) is false: Invalid '
 "SLayout:can't find S in source layoutABCD"), flush=True)
    try:
        model, inputs = load()
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    try:
        run(model, inputs, level)
    except (ImportError, AttributeError) as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    except Exception as error:
        print(f"{level}: {type(error).__module__}.{type(error).__qualname__}: {error}")
        return 1
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O1+ConvertLayout'))
