"""Apache TVM (Relax): ONNX importer, LLVM code generation, Relax virtual machine.

The levels differ in the pipeline, since `PassContext(opt_level)` alone changes nothing in Relax:
  O0  default pipeline, opt_level 0, LLVM -O0: no fusion, no folding
  O1  the target's pipeline at opt_level 0: legalisation and dispatch, FuseOps switched off
  O3  the target's pipeline at opt_level 3, LLVM with the host's instruction set
Further passes and options are drawn for each test case (backends/tvm_passes.py). FastMathTransform
and ToMixedPrecision are never used, because they do not preserve semantics.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np

from nnfuzz.backend.complaint import (
    CompilerError,
    Complaint,
    ComplaintKind,
    Stage,
    about_inputs,
    first_statement,
    read_complaint,
)
from nnfuzz.backend.contract import (
    Backend,
    BackendOptions,
    BackendUnavailable,
    Override,
    Program,
    option,
)
from nnfuzz.backend.target import ONNX, Pipeline

from . import tvm_passes
from .frontends import FORM, REPRO_RELAX, VALUE, carried, relax_module
from .issue_forms import TVM

# Passes without which no program can be built.
_REQUIRED = frozenset(
    (
        *("_pipeline", "sequential", "LegalizeOps", "tirx.BindTarget", "s_tir.LowerInitBlock"),
        *("s_tir.ConvertBlocksToOpaque", "s_tir.LowerOpaqueBlock", "tirx.FlattenBuffer"),
        *("tirx.MakePackedAPI", "tirx.LowerIntrin", "CallTIRRewrite", "LowerAllocTensor"),
        *("LowerRuntimeBuiltin", "AttachGlobalSymbol", "tirx.Filter", "ToNonDataflow"),
        *("VMShapeLower", "RemovePurityChecking", "tirx.LowerTVMBuiltin", "tirx.SplitHostDevice"),
    )
)
# Messages of the importer; if the code generator lacks something, that stays an exception.
_UNSUPPORTED = re.compile(
    r"not (yet )?supported|not implemented|unsupported|only supports?\b|currently only"
    r"|only constant|must be a constant|missing outputs during conversion"
    r"|must be \d+ for Relax frontend|requires the input tensor to have float dtype"
    r"|unknown dtype `object`",
    re.IGNORECASE,
)
# Messages of the code generator and the runtime. That emit_te "now only supports Tensor that has
# ShapeExpr shape" is no such message: the importer has then lost a shape that the model declares.
_NO_DTYPE = re.compile(
    r"Data type \S+ not supported|Unsupported input dtype|\bonly supports? b?float\d+\b"
)
# Messages of code generation about a value to which the importer gave a wrong dtype.
_WRONG_DTYPE = re.compile(
    r"\bbound to different types\b|\btype mismatch: expected\b|\bexpected boolean argument\b",
    re.IGNORECASE,
)
# TVM prints this inside of a sentence if it quotes a call with a constant.
_FOOTNOTE = re.compile(r"\s*# Metadata omitted\b[^\n]*? to show it\.")
_PACKED = (21, 22)  # onnx.TensorProto.UINT4 and INT4
_REPRO = """\
def run(model, inputs, level):
    import tvm
    from tvm import relax
{load}
{drawn}{target}
{passes}    opt_level = 3 if level == "O3" else 0
    with target, tvm.transform.PassContext(opt_level=opt_level{config}):
        program = relax.build(module, target, relax_pipeline=pipeline, exec_mode={exec_mode})
    machine = relax.VirtualMachine(program, device)
    main = machine["main"]
{lifted}    arrays = [inputs[name] for name in names]
    result = main(*(tvm.runtime.tensor(array, device) for array in arrays){kept})
    results = [result] if len(outputs) == 1 else result
    return {{name: {value} for name, value in zip(outputs, results)}}
"""
_REPRO_ONNX = """\
    import onnx
    from tvm.relax.frontend.onnx import from_onnx

    graph = onnx.load_model_from_string(model).graph
    {imported}
    weights = {{tensor.name for tensor in graph.initializer}}
    names = [value.name for value in graph.input if value.name not in weights]
    outputs = [value.name for value in graph.output]
"""
_IMPORTED = """\
module = from_onnx(onnx.load_model_from_string(model))"""
_IMPORTED_AND_KEPT = """\
module = from_onnx(onnx.load_model_from_string(model), keep_params_in_input=True)
    module, parameters = relax.frontend.detach_params(module)"""
_REPRO_DRAWN = """\
    passes, config, options = DRAWN.get(level, ((), {{}}, {{}}))
    level = level.partition("+")[0]
    machine_code = {{"opt-level": 0}}
    if level != "O0":
        machine_code = {{"mcpu": tvm.target.codegen.llvm_get_system_cpu()}}
    exec_mode = options.get("exec_mode", "bytecode")
    machine_code.update((k, v) for k, v in options.items() if k != "exec_mode")
"""
_REPRO_PASSES = """\
    with target, tvm.transform.PassContext(opt_level=3, config=config):
        for make in passes:
            module = make(tvm, relax)(module)
"""
_REPRO_HALF = """\
    whole = module["main"]
    module["main"] = whole.with_attr("num_input", (len(whole.params) + 1) // 2)
"""
_REPRO_LIFTED = """\
    if passes:
        lifted, divided = machine["main_transform_params"], main

        def main(*arrays):
            count = (len(arrays) + 1) // 2
            return divided(*arrays[:count], *lifted(arrays[count:]))

"""
_REPRO_LLVM = """\
    device = tvm.cpu()
    if level == "O0":
        target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
        pipeline = "default"
    else:
        cpu = tvm.target.codegen.llvm_get_system_cpu()
        target = tvm.target.Target({"kind": "llvm", "mcpu": cpu})
        pipeline = relax.backend.cpu_generic.get_default_pipeline(target)
"""
_REPRO_TARGET = """\
    target = tvm.target.Target({"kind": "llvm", **machine_code})
"""
_REPRO_CUDA = """\
    import os

    os.environ.update(TVM_CUDA_COMPILE_MODE="nvcc", TVM_CUDA_NVCC_NO_FAST_MATH="1")
    device = tvm.cuda()
    target = tvm.target.Target.from_device(device).with_host({"kind": "llvm"})
    pipeline = relax.backend.cuda.get_default_pipeline(target)
"""


@dataclass(frozen=True)
class _Module:
    """An imported model. TVM renames inputs, so only their order identifies them."""

    ir: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    source: Any = None  # the TorchSource, if the model is not ONNX
    parameters: tuple[Any, ...] = ()  # weights that are inputs, after those of the model


_WHOLE = frozenset({"sequential", "_pipeline"})
"""Passes that consist of other passes."""


class Tvm(Backend):
    """from_onnx -> relax.build -> relax.VirtualMachine, single-threaded."""

    name = "tvm"
    levels = ("O0", "O1", "O3")
    steps = tvm_passes.STEPS
    collections = tvm_passes.COLLECTIONS
    issue_form = TVM
    domains = ("com.microsoft",)
    preload = ("tvm", "tvm.relax", "tvm.relax.frontend.onnx", "tvm.relax.backend.cpu_generic")
    install = 'pip install "nnfuzz[tvm]"'
    distribution = "apache-tvm"
    older: ClassVar = {"0.26.0": "apache-tvm-ffi<0.1.13"}  # newer ones lack its symbols
    preferred_opset = 18
    environment: ClassVar = {"TVM_NUM_THREADS": "1"}
    overrides = (
        Override("TVM_NUM_THREADS=1", "results do not depend on the machine", exact=False),
        Override("TVM_CUDA_NVCC_NO_FAST_MATH=1", "nvcc would use its fast math", exact=False),
    )

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        target: Literal["llvm", "cuda"] = option("llvm", "code generator", means="device")
        form: Literal["onnx", "exported"] = option("onnx", FORM)
        weights: Literal["constants", "inputs"] = option("constants", "of the module for weights")

    @classmethod
    def default_levels(cls) -> tuple[str, ...]:
        return ("O0", "O3")

    @property
    def device(self) -> str:
        return "cuda" if self.options.target == "cuda" else "cpu"

    def versions(self) -> dict[str, str]:
        import tvm

        if self.options.target == "cuda" and not tvm.cuda().exist:
            raise BackendUnavailable("target=cuda needs an NVIDIA GPU and driver; use target=llvm")
        llvm = tvm.target.codegen.llvm_version_major()
        return {"tvm": tvm.__version__, "llvm": str(llvm)}

    def load(self, model: Any) -> _Module:
        """ONNX bytes, or a PyTorch module, -> IRModule with static shapes."""
        if not isinstance(model, bytes):
            return _Module(relax_module(model), tuple(model.graph.inputs), model.outputs, model)
        import onnx
        from tvm.relax.frontend.onnx import from_onnx

        proto = onnx.load_model_from_string(model)
        weights = {tensor.name for tensor in proto.graph.initializer}
        ends = (*proto.graph.input, *proto.graph.output)
        if any(v.type.tensor_type.elem_type in _PACKED for v in ends):
            raise NotImplementedError("tvm.runtime takes and returns no arrays of 4 bits")
        kept = self.options.weights == "inputs"
        ir, parameters = from_onnx(proto, keep_params_in_input=kept), ()
        if kept:
            from tvm.relax.frontend import detach_params

            ir, detached = detach_params(ir)
            parameters = tuple(detached.get("main", ()))
        return _Module(
            ir,
            tuple(value.name for value in proto.graph.input if value.name not in weights),
            tuple(value.name for value in proto.graph.output),
            parameters=parameters,
        )

    def draw_pipeline(self, rng: Random) -> Pipeline | None:
        """Draws no pipeline for CUDA, because drawn pipelines have not been tried there."""
        return tvm_passes.draw(rng) if self.device == "cpu" else None

    def build(self, module: _Module, level: str) -> Program:
        return self._build(module, level, [])

    def changed_passes(self, module: _Module, level: str) -> list[str]:
        """Compares the module before and after every pass."""
        return _parts(self._watched(module, level).changed)

    def known_passes(self, module: _Module, level: str) -> list[str]:
        """Returns the passes that the pipeline runs, without those that consist of others."""
        return _parts(self._watched(module, level).ran)

    def _watched(self, module: _Module, level: str) -> Any:
        """The record of the passes of one build."""
        watch = _watch()
        self._build(module, level, [watch])
        return watch

    def fired_passes(self, module: _Module, level: str) -> list[str]:
        """Returns the passes that raise or change the module, which is compared after each pass."""
        watch = _watch()
        with contextlib.suppress(Exception):
            self._build(module, level, [watch])
        names = dict.fromkeys([*watch.changed, *(name for name, _ in watch.open)])
        return [name for name in names if name not in _REQUIRED]

    def build_without(self, module: _Module, level: str, passes: Collection[str]) -> Program:
        return self._build(module, level, [_skip(passes)])

    def _build(self, module: _Module, level: str, instruments: list[Any]) -> Program:
        import tvm
        from tvm import relax

        if self.options.target == "cuda":  # otherwise TVM compiles with --use_fast_math
            os.environ.update(TVM_CUDA_COMPILE_MODE="nvcc", TVM_CUDA_NVCC_NO_FAST_MATH="1")
        pipeline = Pipeline.parse(level)
        options = {"exec_mode": "bytecode", **tvm_passes.chosen(pipeline.steps)}
        target = self._target(pipeline.level, options)
        settings = {"instruments": instruments, "config": tvm_passes.config(pipeline.steps)}
        # Below opt_level 1, passes that consist of others would leave some of the drawn ones out.
        with target, tvm.transform.PassContext(opt_level=3, **settings):
            ir = tvm_passes.applied(tvm, module.ir, pipeline.steps)
        opt_level = 3 if pipeline.level == "O3" else 0
        with target, tvm.transform.PassContext(opt_level=opt_level, **settings):
            executable = relax.build(
                ir,
                target,
                relax_pipeline=self._pipeline(pipeline.level, target),
                exec_mode=options["exec_mode"],
            )
        device = tvm.cuda() if self.options.target == "cuda" else tvm.cpu()
        main = _main(relax.VirtualMachine(executable, device), pipeline)

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            given = (tvm.runtime.tensor(inputs[name], device) for name in module.inputs)
            result = main(*given, *module.parameters)
            results = [result] if len(module.outputs) == 1 else result
            return {name: _array(value) for name, value in zip(module.outputs, results)}

        return run if module.source is None else carried(module.source, run)

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        """Reads the first line, which states the cause; a dump of the module follows it."""
        if not error.error_type:
            return read_complaint(error)
        subject = first_statement(_FOOTNOTE.sub("", error.message))
        return Complaint(_kind(error, subject), subject)

    def repro(self) -> str:
        target = _REPRO_CUDA if self.options.target == "cuda" else _REPRO_LLVM
        plain = dict.fromkeys(("drawn", "config", "passes", "lifted"), "")
        return self._written(target=target.rstrip(), exec_mode=repr("bytecode"), **plain)

    def repro_drawn(self, pipelines: Collection[Pipeline], foreign: bool) -> str:
        steps = {step for pipeline in pipelines for step in pipeline.steps}
        lifts = tvm_passes.LIFT in steps
        program = self._written(
            drawn=_REPRO_DRAWN.format(),
            target=(_REPRO_LLVM + _REPRO_TARGET).rstrip(),
            config=", config=config",
            passes=(_REPRO_HALF if lifts else "") + _REPRO_PASSES,
            exec_mode="exec_mode",
            lifted=_REPRO_LIFTED if lifts else "",
        )
        return tvm_passes.source_of(pipelines) + "\n\n" + program

    def _written(self, **parts: str) -> str:
        onnx = self.form == ONNX
        load, value = (_REPRO_ONNX, "value.numpy()") if onnx else (REPRO_RELAX, VALUE)
        kept = onnx and self.options.weights == "inputs"
        if onnx:
            load = load.format(imported=_IMPORTED_AND_KEPT if kept else _IMPORTED)
        parts["kept"] = ', *parameters.get("main", ())' if kept else ""
        return _REPRO.format(load=load.rstrip(), value=value, **parts)

    def _target(self, level: str, options: Mapping[str, str]) -> Any:
        import tvm

        if self.options.target == "cuda":
            return tvm.target.Target.from_device(tvm.cuda()).with_host({"kind": "llvm"})
        target: dict[str, Any] = {"kind": "llvm"}
        if level != "O0":
            target["mcpu"] = tvm.target.codegen.llvm_get_system_cpu()
        if "mcpu" in options:
            target["mcpu"] = options["mcpu"]
        if "opt-level" in options or level == "O0":
            target["opt-level"] = int(options.get("opt-level", 0))
        return tvm.target.Target(target)

    def _pipeline(self, level: str, target: Any) -> Any:
        from tvm import relax

        if self.options.target == "cuda":
            # The default pipeline leaves PrimFuncs without thread bindings: CUDA needs its own.
            return relax.backend.cuda.get_default_pipeline(target)
        if level == "O0":
            return "default"
        return relax.backend.cpu_generic.get_default_pipeline(target)


def _kind(error: CompilerError, subject: str) -> ComplaintKind:
    refusal = _UNSUPPORTED if error.stage is Stage.IMPORT else _NO_DTYPE
    # tvm.error.OpNotImplemented is a NotImplementedError.
    if "NotImplementedError" in error.bases or refusal.search(error.message):
        return ComplaintKind.UNSUPPORTED
    if error.stage is Stage.IMPORT:
        return about_inputs(subject)
    wrong = error.error_type == "TypeError" or _WRONG_DTYPE.search(subject)
    return ComplaintKind.DTYPE if wrong else ComplaintKind.ERROR


def _array(value: Any) -> np.ndarray:
    """A result of the virtual machine as an array. TVM returns ONNX's Shape as a ShapeTuple."""
    import tvm

    if isinstance(value, tvm.runtime.ShapeTuple):
        return np.array(list(value), np.int64)
    if not isinstance(value, tvm.runtime.Tensor):
        raise ValueError(f"the virtual machine returned {type(value).__name__}, not a tensor")
    return value.numpy()


def _main(machine: Any, pipeline: Pipeline) -> Callable[..., Any]:
    """The entry point of a virtual machine, also if LiftTransformParams has divided it."""
    main = machine["main"]
    if tvm_passes.LIFT not in pipeline.steps:
        return main
    try:
        lifted = machine[tvm_passes.LIFTED]
    except (AttributeError, ValueError):  # the pass is switched off, or there are no weights
        return main

    def run(*arrays: Any) -> Any:
        count = (len(arrays) + 1) // 2
        return main(*arrays[:count], *lifted(arrays[count:]))

    return run


def _parts(names: Iterable[str]) -> list[str]:
    """The passes, once each, without those that consist of others."""
    return [name for name in dict.fromkeys(names) if name not in _WHOLE]


def _watch() -> Any:
    """A pass instrument that records which passes change the module, and which did not return."""
    import tvm
    import tvm_ffi

    @tvm.ir.instrument.pass_instrument
    class Watch:
        def __init__(self) -> None:
            self.changed: list[str] = []
            self.ran: list[str] = []
            self.open: list[tuple[str, Any]] = []

        def run_before_pass(self, module: Any, info: Any) -> None:
            self.open.append((info.name, module))
            self.ran.append(info.name)

        def run_after_pass(self, module: Any, info: Any) -> None:
            name, before = self.open.pop()
            if not tvm_ffi.structural_equal(before, module, map_free_vars=True):
                self.changed.append(name)

    return Watch()


def _skip(passes: Collection[str]) -> Any:
    """A pass instrument that skips the named passes."""
    import tvm

    @tvm.ir.instrument.pass_instrument
    class Skip:
        def should_run(self, module: Any, info: Any) -> bool:
            return info.name not in passes

    return Skip()
