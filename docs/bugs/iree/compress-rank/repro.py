#!/usr/bin/env python3
"""iree: exception in compile (all levels): CompilerToolError: 'tensor.cast' op operand type 'tensor' and result type 'tensor' are cast incompatible

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
nnfuzz (float[1] p4, bool[1] p5) => (float[1] p0) 
   <int64[1] c_2 =  {1}, int64[1] c_4 =  {0}, int64[1] c_5 =  {1}, int64[1] c_6 =  {0}>
{
   [Compress_1] Compress_1 = Compress (p4, p5)
   [ConstantOfShape_3] ConstantOfShape_3 = ConstantOfShape <value: tensor = float[1] {0}> (c_2)
   [Concat_7] Concat_7 = Concat <axis: int = 0> (Compress_1, ConstantOfShape_3)
   [Slice_8] Slice_8 = Slice (Concat_7, c_4, c_5, c_6)
   [Reshape_9] p0 = Reshape (Slice_8, c_2)
}"""
INPUTS = {
    'p4': np.array([0.0], 'float32'),
    'p5': np.array([False], 'bool'),
}


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
    print(('Expected: the model compiles and runs. Seen at O0, O3, stage compile: '
 'iree.compiler.tools.binaries.CompilerToolError: Error invoking IREE compiler tool '
 'iree-compile\n'
 'Error code: 1\n'
 'Diagnostics:\n'
 "<stdin>:8:10: error: 'tensor.cast' op operand type 'tensor<?x1xi1>' and result type "
 "'tensor<?xi1>' are cast incompatible\n"
 '    %4 = torch.operator "onnx.Compress"(%arg0, %arg1) : (!torch.vtensor<[1],f32>, '
 '!torch.vtensor<[1],i1>)\n'
 '[... 275 characters left out ...]\n'
 'e/compiler/tools/../_mlir_libs/iree-lld --mlir-print-debuginfo '
 '--mlir-print-op-on-diagnostic=false --iree-input-demote-f64-to-f32=false '
 '--iree-llvmcpu-target-cpu=host --iree-opt-level=O0\n'
 '\n'
 'Need more information? Set IREE_SAVE_TEMPS=/some/dir in your environment to save all '
 'artifacts and reproducers.\n'), flush=True)
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
