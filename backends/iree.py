"""IREE: torch-mlir's ONNX importer, iree-compile in a process of its own, local runtime.

The levels are those of iree-compile's --iree-opt-level, for the instructions of this CPU. float64
stays float64. A model takes seconds, so campaigns need more time, or a faster compiler besides.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from nnfuzz.backend.complaint import CompilerError, Complaint, ComplaintKind, read_complaint
from nnfuzz.backend.contract import Backend, Override, Program

from .issue_forms import IREE

_OVERRIDES = (
    # Without it, programs take no float64, so that it is no setting of a level.
    Override("iree-input-demote-f64-to-f32=false", "float64 is taken as float32", exact=False),
    Override("iree-llvmcpu-target-cpu=host", "the plainest processor is assumed", exact=False),
)
_FLAGS = tuple(f"--{own.step}" for own in _OVERRIDES)
_UNKNOWN = "Unknown command line argument '--iree-opt-level"
_ENTRY = "main"
_ERROR = re.compile(r"\b(?:error|LLVM ERROR): (?P<statement>.*)")
_OPERATOR = re.compile(r"\bonnx\.(?P<name>\w+)")
_UNSUPPORTED = re.compile(
    r"failed to legalize|no conversion|not (?:yet )?(?:supported|implemented)|unsupported"
    r"|unimplemented|does not (?:currently )?support",
    re.IGNORECASE,
)
"""MLIR reports that it "failed to legalize" an operation if it has no lowering for it."""
_REPRO = """\
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

    def compiled(*levels):
        given = dict(input_type="onnx", target_backends=["llvm-cpu"])
        return compiler.compile_str(str(module), **given, extra_args=[*{flags!r}, *levels])

    try:
        program = compiled(f"--iree-opt-level={{level}}")
    except Exception as error:
        if {unknown!r} not in str(error):
            raise
        program = compiled()  # an old release, which has no levels
    config = runtime.Config("local-sync")
    context = runtime.SystemContext(config=config)
    loaded = runtime.VmModule.copy_buffer(config.vm_instance, program)
    context.add_vm_module(loaded)
    weights = {{tensor.name for tensor in proto.graph.initializer}}
    names = [value.name for value in proto.graph.input if value.name not in weights]
    results = context.modules[loaded.name]["main"](*(inputs[name] for name in names))
    results = [results] if len(proto.graph.output) == 1 else results
    return {{value.name: np.asarray(x) for value, x in zip(proto.graph.output, results)}}
"""


class Iree(Backend):
    """onnx_importer -> iree-compile -> iree.runtime, llvm-cpu and local-sync."""

    name = "iree"
    levels = ("O0", "O3")
    overrides = _OVERRIDES
    issue_form = IREE
    preload = ("iree.compiler", "iree.runtime")
    install = 'pip install "nnfuzz[iree]"'
    preferred_opset = 17

    def versions(self) -> dict[str, str]:
        from iree.compiler import version

        return {"iree": version.VERSION}

    def load(self, model: bytes) -> Any:
        """Returns MLIR text, the names of the inputs, and the dtypes of the outputs by name."""
        import onnx
        from iree.compiler.extras import onnx_importer
        from iree.compiler.ir import Context
        from onnx.helper import tensor_dtype_to_np_dtype

        proto = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(model))
        weights = {tensor.name for tensor in proto.graph.initializer}
        inputs = [value for value in proto.graph.input if value.name not in weights]
        dtypes = {
            value.name: tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            for value in (*inputs, *proto.graph.output)
        }
        foreign = [str(dtype) for dtype in dtypes.values() if dtype.kind == "V"]
        if foreign:
            raise NotImplementedError(f"iree.runtime takes no arrays of {foreign[0]}")
        proto.graph.name = _ENTRY
        info = onnx_importer.ModelInfo(proto)
        module = info.create_module(context=Context())
        onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
        outputs = {value.name: dtypes[value.name] for value in proto.graph.output}
        return str(module), [value.name for value in inputs], outputs

    def build(self, module: Any, level: str) -> Program:
        import iree.compiler as compiler
        import iree.runtime as runtime

        text, inputs, outputs = module

        def compiled(*levels: str) -> Any:
            given = {"input_type": "onnx", "target_backends": ["llvm-cpu"]}
            return compiler.compile_str(text, **given, extra_args=[*_FLAGS, *levels])

        try:
            program = compiled(f"--iree-opt-level={level}")
        except Exception as error:
            if _UNKNOWN not in str(error):
                raise
            program = compiled()  # an old release, which has no levels
        config = runtime.Config("local-sync")
        context = runtime.SystemContext(config=config)
        loaded = runtime.VmModule.copy_buffer(config.vm_instance, program)
        context.add_vm_module(loaded)
        main = context.modules[loaded.name][_ENTRY]

        def run(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            results = main(*(given[name] for name in inputs))
            results = [results] if len(outputs) == 1 else results
            return {n: _signed_as(np.asarray(x), outputs[n]) for n, x in zip(outputs, results)}

        return run

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        """Reads the first diagnostic, and the first ONNX operator that it quotes."""
        match = _ERROR.search(error.message)
        if match is None:
            return read_complaint(error)
        statement = match["statement"]
        operator = _OPERATOR.search(statement)
        read = replace(read_complaint(error), subject=statement, others=())
        read = replace(read, operators=(operator["name"],) if operator else ())
        kind = ComplaintKind.UNSUPPORTED if _UNSUPPORTED.search(statement) else ComplaintKind.ERROR
        return read.of_kind(kind)

    def repro(self) -> str:
        return _REPRO.format(flags=_FLAGS, unknown=_UNKNOWN)


def _signed_as(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """IREE's integers have no sign, so the bits are read as the declared dtype."""
    whole = array.dtype.kind in "iu" and dtype.kind in "iu"
    return np.array(array.view(dtype) if whole and array.itemsize == dtype.itemsize else array)
