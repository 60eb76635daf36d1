#!/usr/bin/env python3
"""tvm: LayerNormalization, axis=0, epsilon=0.01 + ArgMin, keepdims=0: Axis is out of bounds (import, all levels)

Needs tvm 0.27.0.post1, llvm 22, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run or fails otherwise.
"""

from __future__ import annotations

import re
import sys

try:
    import numpy as np
    from onnx import parser
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

MODEL = """
<
   ir_version: 8,
   opset_import: ["" : 17],
   producer_name: "nnfuzz"
>
nnfuzz (float[1] p8) => (int64 v14) {
   [LayerNormalization_1] p0, v11, v12 = LayerNormalization <axis: int = 0, epsilon: float = 0.01> (p8, p8)
   [ArgMin_4] v14 = ArgMin <keepdims: int = 0, axis: int = 0, select_last_index: int = 0> (v11)
}"""
INPUTS = {
    'p8': np.array([0.0], 'float32'),
}


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
    seen = [('AssertionError', 'Axis is out of bounds')]
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage import: AssertionError: '
 'Axis is out of bounds'), flush=True)
    try:
        model, inputs = load()
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    try:
        run(model, inputs, level)
    except (ImportError, AttributeError, FileNotFoundError) as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    except Exception as error:
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        print(f"{level}: {name}: {error}")
        words = re.findall('[A-Za-z_]{2,}', re.sub('[^\\s\'\\":,()<>|]*/[^\\s\'\\":,()<>|]*|\\\\[xuU][0-9a-f]+|0x[0-9a-fA-F]+|\\bTMP\\b', " ", str(error)))
        return 1 if (type(error).__name__, " ".join(words[:40])) in seen else 125
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
