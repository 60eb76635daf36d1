#!/usr/bin/env python3
"""iree: wrong value at LSTM (all levels)

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
nnfuzz (float[1,3] p4, float[1,1,1] p0, float[1,4,1] p1) => (float[1,1,1] v5) 
   <int32[1] c_1 =  {1}>
{
   [LSTM_2] v6, v5, LSTM_4 = LSTM <direction: string = "forward", hidden_size: int = 1> (p0, p1, p1, "", c_1, "", "", p4)
}"""
INPUTS = {
    'p4': np.array([[0.0, 1.0, 0.0]], 'float32'),
    'p0': np.array([[[1.0]]], 'float32'),
    'p1': np.array([[[0.0], [0.0], [0.0], [1.0]]], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v5', 'float32', (1, 1, 1)
INDEX = (0, 0, 0)  # the worst of 1 wrong elements
EXPECTED = 0.2158830314874649  # computed in float64
LOW, HIGH = 0.21588185469588161, 0.21588421748621964  # what rounding can account for


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
