#!/usr/bin/env python3
"""iree: wrong value at MaxPoolIndices (all levels)

Needs iree 3.13.0rc20261016, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0, O3; default: O0

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 8,
   opset_import: ["" : 17],
   producer_name: "nnfuzz"
>
nnfuzz (float[1,2,1] v14) => (int64[1,2,1] v17) {
   [MaxPool_1] v16, v17 = MaxPool <kernel_shape: ints = [1], strides: ints = [1], pads: ints = [0, 0], ceil_mode: int = 0, dilations: ints = [1], storage_order: int = 0> (v14)
}"""
INPUTS = {
    'v14': np.array([[[0.0], [0.0]]], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v17', 'int64', (1, 2, 1)
INDEX = (0, 1, 0)  # the worst of 1 wrong elements
EXPECTED = LOW = HIGH = 1


def run(model, inputs, level):
    import iree.compiler as compiler
    import iree.runtime as runtime
    import onnx
    from iree.compiler.extras import onnx_importer
    from iree.compiler.ir import Context

    proto = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(model))
    proto.graph.name = "main"
    info = onnx_importer.ModelInfo(proto)
    module = info.create_module(context=Context())
    onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
    flags = [*('--iree-input-demote-f64-to-f32=false', '--iree-llvmcpu-target-cpu=host'), f"--iree-opt-level={level}"]
    program = compiler.compile_str(
        str(module), input_type="onnx", target_backends=["llvm-cpu"], extra_args=flags
    )
    config = runtime.Config("local-sync")
    context = runtime.SystemContext(config=config)
    loaded = runtime.VmModule.copy_buffer(config.vm_instance, program)
    context.add_vm_module(loaded)
    weights = {tensor.name for tensor in proto.graph.initializer}
    names = [value.name for value in proto.graph.input if value.name not in weights]
    found = context.modules[loaded.name]["main"](*(inputs[name] for name in names))
    found = [found] if len(proto.graph.output) == 1 else found
    return {value.name: np.asarray(x) for value, x in zip(proto.graph.output, found)}


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
