"""ONNX Runtime, CPU (default) or CUDA execution provider.

Level O0 still runs four transformers (among them the one that computes float16 in float32).
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np

from nnfuzz.backend.complaint import (
    CompilerError,
    Complaint,
    ComplaintKind,
    first_statement,
    read_complaint,
)
from nnfuzz.backend.contract import (
    Backend,
    BackendOptions,
    BackendUnavailable,
    IssueForm,
    Program,
    option,
)
from nnfuzz.backend.interface import OnnxModel, from_bytes, onnx_dtype, packed_bytes, to_bytes
from nnfuzz.backend.target import DEFAULT, Pipeline

from .issue_forms import ONNX_RUNTIME
from .onnxruntime_options import (
    BOUND,
    EXACT,
    FREE,
    OFF,
    OVERRIDES,
    STEPS,
    WIDE,
    all_steps,
    configure,
    draw,
    free_sizes,
    switched_off,
)

_LEVELS = {
    "O0": "ORT_DISABLE_ALL",
    "O1": "ORT_ENABLE_BASIC",
    "O2": "ORT_ENABLE_EXTENDED",
    "O3": "ORT_ENABLE_ALL",
}
# Messages with which ONNX Runtime refuses a model, beside those that read_complaint knows.
_OTHER_DTYPE = re.compile(r"\bType '\S+' of input parameter \S+ of operator \S+ in node \(com\.")
"""What an older release says of a dtype that a contributed operator has had later."""
_LIMITED = "is under development and support for this is limited"
_CODE = re.compile(r"^\[\w+\] : \w+ : \w+ : ")
_OPTIONAL = re.compile(r"\boptional\((\w+\(\w+\))\)")
_INFERENCE = re.compile(r"Op \((\w+)\) \[\w*InferenceError\]|InferenceError")
_PLANNED = re.compile(r"\bprovided for output\b.*\bhas shape\b|\bhas shape\b.*\bcomputed\b")
"""Messages about wrong shape inference: memory was planned for another shape than computed."""
_FIRED = re.compile(r"GraphTransformer (\S+) modified: (\d)")
RULES = {
    "Level1_RuleBasedTransformer": (
        *("CastElimination", "CastChainElimination", "ConvAddFusion", "ConvBNFusion"),
        *("ConvMulFusion", "DivMulFusion", "EliminateDropout", "EliminateIdentity"),
        *("EliminateSlice", "ExpandElimination", "FuseReluClip", "GemmSumFusion"),
        *("GemmTransposeFusion", "LabelEncoderFusion", "MatMul_BatchNormalization_Fusion"),
        *("NoopElimination", "NotWhereFusion", "Pad_Fusion", "PreShapeNodeElimination"),
        "UnsqueezeElimination",
    ),
    "Level2_RuleBasedTransformer": (
        *("ClipQuantRewrite", "GemmTransposeFusion", "ReluQuantRewrite"),
    ),
}
"""Rule-based transformer -> rewrite rules that it runs; the log names only the transformer.

Source: GenerateRewriteRules in onnxruntime/core/optimizer/graph_transformer_utils.cc.
"""
# Transformers that run at every level and cannot be switched off.
_ALWAYS = frozenset({"EnsureUniqueDQForNodeUnit", "MemcpyTransformer", "CastFloat16Transformer"})
# Types that ONNX Runtime's Python binding cannot represent as NumPy arrays.
_FOREIGN = frozenset(
    f"tensor({name})"
    for name in (
        *("bfloat16", "int4", "uint4", "float8e4m3fn", "float8e4m3fnuz"),
        *("float8e5m2", "float8e5m2fnuz"),
    )
)
_REPRO = """\
OPTIMISATION = {levels!r}
EXACT = {exact!r}


def run(model, inputs, level):
    import onnxruntime as ort

{split}    exact = {{}} if level == "default" else dict(EXACT)  # default: as everybody opens it
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPTIMISATION[level])
    options.intra_op_num_threads = 1
    for key, value in exact.items():
        options.add_session_config_entry(key, value)
{configure}    session = ort.InferenceSession({model}, options, providers={providers}{off})
{fixed}    names = [output.name for output in session.get_outputs()]
"""
_DRAWN = {
    "split": """\
    level, *steps = level.split("+")
""",
    "configure": """\
    configure(options, steps)
""",
    "off": f", disabled_optimizers=[*switched_off(steps), exact.get({OFF!r}, '')]",
}
_FIXED = """\
    if steps:
        for name, size in free_sizes(session, inputs).items():
            options.add_free_dimension_override_by_name(name, size)
        session = ort.InferenceSession({model}, options, providers={providers}{off})
"""
_BOUND = f"""\
    call = _bound(session) if {BOUND!r} in steps and {FREE!r} not in steps else None
    if call:
        return call(inputs)
"""
_RUN = """    return dict(zip(names, session.run(names, inputs)))
"""
_RUN_FOREIGN = """    values = {name: to_ort(array) for name, array in inputs.items()}
    results = session.run_with_ort_values(names, values)
    return {name: from_ort(value) for name, value in zip(names, results)}


def to_ort(array):  # ONNX Runtime takes no arrays of bfloat16, float8 or int4
    import ctypes

    import onnxruntime as ort
    from onnx import numpy_helper

    tensor = numpy_helper.from_array(array)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), tensor.data_type)
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def from_ort(value):
    import ctypes

    import numpy as np
    from onnx import helper, numpy_helper

    dtype = helper.tensor_dtype_to_np_dtype(value.element_type())
    tensor = numpy_helper.from_array(np.zeros(value.shape(), dtype))
    tensor.raw_data = ctypes.string_at(value.data_ptr(), len(tensor.raw_data))
    return numpy_helper.to_array(tensor)
"""


def _optional(names: Iterable[str]) -> list[str]:
    """The transformers, once each, that can be switched off."""
    return [name for name in dict.fromkeys(names) if name not in _ALWAYS]


@contextlib.contextmanager
def _captured() -> Iterator[Callable[[], str]]:
    """Captures what is written to file descriptor 2 within the block, where ONNX Runtime logs.
    Yields a function that returns the text after the block."""
    text: list[str] = []
    with tempfile.TemporaryFile() as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield lambda: text[0]
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            log.seek(0)
            text.append(log.read().decode(errors="replace"))


class OnnxRuntime(Backend):
    """onnxruntime.InferenceSession, one thread, one session per level."""

    name = "onnxruntime"
    levels = tuple(_LEVELS)
    steps: ClassVar = STEPS
    optimisation: ClassVar[Mapping[str, str]] = {**_LEVELS, DEFAULT: "ORT_ENABLE_ALL"}
    overrides = OVERRIDES
    repro_model = "model"  # expression for the model in a repro script
    issue_form: ClassVar[IssueForm | None] = ONNX_RUNTIME
    threads = True
    preload: ClassVar[tuple[str, ...]] = ("onnxruntime",)
    # Releases since 1.29 would report every model to Microsoft, and leave a file .ses behind.
    environment: ClassVar = {"ORT_DISABLE_TELEMETRY": "1"}
    install = 'pip install "nnfuzz[onnxruntime]"'
    distribution = "onnxruntime"
    older: ClassVar = {"1.19": "numpy<2"}
    domains = ("ai.onnx.ml", "com.microsoft")
    max_opset = 26
    loads_files: ClassVar[bool] = True
    collections: ClassVar = {
        "ConstantFolding": (),
        "QDQSelectorActionTransformer": ("DequantizeLinear", "QuantizeLinear"),
    }

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        provider: Literal["cpu", "cuda"] = option("cpu", "execution provider", means="device")

    def versions(self) -> dict[str, str]:
        import onnxruntime

        wanted = self._providers()[0]
        name = wanted if isinstance(wanted, str) else wanted[0]
        if name not in onnxruntime.get_available_providers():
            raise BackendUnavailable(f"this onnxruntime has no {name}: pip install onnxruntime-gpu")
        # Sessions silently use the CPU if the provider's libraries or the GPU are missing.
        session = onnxruntime.InferenceSession(_trivial(), providers=self._providers())
        if name not in session.get_providers():
            raise BackendUnavailable(f"{name} does not start: is there a GPU, its driver, CUDA?")
        return {"onnxruntime": onnxruntime.__version__}

    def load(self, model: bytes) -> bytes:
        """Does nothing: ONNX Runtime imports the model when it creates the session."""
        return model

    def draw_pipeline(self, rng: Random) -> Pipeline | None:
        """Draws no pipeline for CUDA, because drawn pipelines have not been tried there."""
        return draw(rng) if self.steps and self.device == "cpu" else None

    def build(self, module: bytes, level: str) -> Program:
        return self.build_without(module, level, ())

    def build_without(self, module: bytes, level: str, passes: Collection[str]) -> Program:
        """ONNX Runtime ignores unknown names silently."""
        steps = Pipeline.parse(level).steps
        plain = self._session(module, level, passes)
        ends = (*plain.get_inputs(), *plain.get_outputs())
        foreign = any(value.type in _FOREIGN for value in ends)
        if BOUND in steps and FREE not in steps and not foreign and (program := _bound(plain)):
            return program
        once = _run_foreign if foreign else _run

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            session = plain
            if FREE in steps and (sizes := free_sizes(plain, inputs)):
                session = self._session(module, level, passes, sizes=sizes)
            return once(session, inputs)

        return run

    def changed_passes(self, module: bytes, level: str) -> list[str]:
        """Returns the transformers that the log says changed something; rules are not in it."""
        return _optional(n for n, count in self.logged(module, level)[1] if count != "0")

    def known_passes(self, module: bytes, level: str) -> list[str]:
        """Returns the transformers in the log; their rules are not in it."""
        return _optional(name for name, _ in self.logged(module, level)[1])

    def fired_passes(self, module: bytes, level: str) -> list[str]:
        """Returns the transformers in the log, in the order of their last change (a level repeats
        them until nothing changes), each followed by its rules.

        If a transformer raises, it is not in the log, so all of the level are returned.
        """
        failed, ran = self.logged(module, level)
        fired = [name for name, count in ran if count != "0"]
        if failed:
            last = ran[-1][0] if ran else ""
            every = [name for name, _ in self.logged(_trivial(), level)[1]]
            fired = every + fired + (every[every.index(last) + 1 :] if last in every else every)
        fired = [name for made in fired for name in (made, *RULES.get(made, ()))]
        return _optional(reversed(fired))[::-1]

    def logged(
        self,
        module: bytes,
        level: str,
        passes: Collection[str] = (),
        sizes: Mapping[str, int] | None = None,
    ) -> tuple[bool, list[tuple[str, str]]]:
        """Whether the session failed, and (transformer, "0" if it changed nothing), as logged.
        passes: those to leave out. sizes: by name, fixed sizes of symbolic dimensions."""
        failed = False
        with _captured() as log:
            try:
                self._session(module, level, passes, severity=1, sizes=sizes)
            except Exception:
                failed = True
        return failed, _FIRED.findall(log())

    def _session(
        self,
        module: bytes,
        level: str,
        passes: Collection[str],
        severity: int = 3,
        sizes: Mapping[str, int] | None = None,
    ) -> Any:
        """sizes: fixed sizes of symbolic dimensions."""
        import onnxruntime as ort

        pipeline, options = Pipeline.parse(level), ort.SessionOptions()
        options.graph_optimization_level = getattr(
            ort.GraphOptimizationLevel, self.optimisation[pipeline.level]
        )
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = severity
        steps = all_steps(pipeline)
        configure(options, steps)
        for name, size in (sizes or {}).items():
            options.add_free_dimension_override_by_name(name, size)
        off = [*switched_off(steps), *passes]
        model = module.path_or_bytes if isinstance(module, OnnxModel) else module
        more = {"disabled_optimizers": off, "providers": self._providers("use_tf32=0" in steps)}
        try:
            return ort.InferenceSession(model, options, **more)
        except Exception:
            if WIDE not in steps:
                raise
        options.add_session_config_entry(WIDE.partition("=")[0], "0")  # some models lack that mode
        return ort.InferenceSession(model, options, **more)

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        """Reads one line: "[ONNXRuntimeError] : code : NAME : MESSAGE".

        optional(TYPE) is read as TYPE, since ONNX Runtime refuses both together.
        """
        if not error.error_type:
            return read_complaint(error)
        subject = _CODE.sub("", first_statement(error.message)).replace("MLFloat16", "float16")
        subject = _OPTIONAL.sub(r"\1", subject)
        inference = _INFERENCE.search(subject)
        operators = (inference[1],) if inference and inference[1] else ()
        return Complaint(_kind(error, subject), subject, operators)

    def repro(self) -> str:
        return self._script() + _RUN

    def repro_foreign(self) -> str:
        return self._script() + _RUN_FOREIGN

    def repro_drawn(self, pipelines: Collection[Pipeline], foreign: bool) -> str:
        parts = {"model": self.repro_model, **_DRAWN}
        steps = {step for pipeline in pipelines for step in pipeline.steps}
        used: list[Any] = [configure, switched_off]
        if FREE in steps:
            used.append(free_sizes)
            parts["fixed"] = _FIXED.format(**parts, providers=self._providers())
        script = self._written(parts)
        if BOUND in steps and not foreign:
            used.append(_bound)
            script += _BOUND
        script += _RUN_FOREIGN if foreign else _RUN
        return "\n\n".join(["from typing import Any\n", *map(inspect.getsource, used), script])

    def _script(self) -> str:
        return self._written({"model": self.repro_model})

    def _written(self, parts: Mapping[str, Any]) -> str:
        none = dict.fromkeys(("split", "configure", "off", "fixed"), "")
        return _REPRO.format(
            **{**none, **parts},
            levels=dict(self.optimisation),
            exact=EXACT,
            providers=self._providers(),
        )

    def _providers(self, exact: bool = True) -> list[Any]:
        if self.options.provider == "cuda":
            settings = {"use_tf32": "0"} if exact else {}
            return [("CUDAExecutionProvider", settings), "CPUExecutionProvider"]
        return ["CPUExecutionProvider"]


def _kind(error: CompilerError, subject: str) -> ComplaintKind:
    refuses = read_complaint(error).kind is ComplaintKind.UNSUPPORTED
    if refuses or _LIMITED in subject or _OTHER_DTYPE.search(subject):
        return ComplaintKind.UNSUPPORTED
    wrong = _INFERENCE.search(subject) or _PLANNED.search(subject)
    return ComplaintKind.TYPE if wrong else ComplaintKind.ERROR


def _run(session: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def _bound(session: Any) -> Any:
    """A program that keeps its inputs, and outputs of known shapes, in buffers of the caller, which
    all calls of a thread use; None where an end is no tensor of numbers.
    """
    import threading

    import onnxruntime as ort

    outputs = session.get_outputs()
    types = [end.type for end in (*session.get_inputs(), *outputs)]
    if any("string" in kind or not kind.startswith("tensor") for kind in types):
        return None
    of_thread = threading.local()

    def call(inputs: dict[str, Any]) -> dict[str, Any]:
        binding, held = vars(of_thread).setdefault("buffers", (session.io_binding(), {}))
        before = binding.get_outputs() if held else [None] * len(outputs)
        for end, value in zip(outputs, before):
            if value and all(isinstance(size, int) for size in end.shape):
                binding.bind_ortvalue_output(end.name, value)
            else:
                binding.bind_output(end.name)
        for name, array in inputs.items():
            if name in held and held[name].shape() == [*array.shape]:
                held[name].update_inplace(array)
            else:
                held[name] = ort.OrtValue.ortvalue_from_numpy(array.copy())
            binding.bind_ortvalue_input(name, held[name])
        session.run_with_iobinding(binding)
        results = [value.copy() for value in binding.copy_outputs_to_cpu()]
        return dict(zip([end.name for end in outputs], results))

    return call


def _run_foreign(session: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs a session with dtypes that the Python binding cannot represent as NumPy arrays."""
    names = [output.name for output in session.get_outputs()]
    results = session.run_with_ort_values(names, {n: _to_ort(a) for n, a in inputs.items()})
    return {name: _from_ort(value) for name, value in zip(names, results)}


def _to_ort(array: np.ndarray) -> Any:
    """An OrtValue with the elements of an array, also for dtypes that NumPy lacks."""
    import onnxruntime as ort

    raw, dtype = to_bytes(array), onnx_dtype(array)
    try:
        value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), dtype)
    except RuntimeError as error:
        raise NotImplementedError(f"no {array.dtype} in Python before 1.20") from error
    ctypes.memmove(value.data_ptr(), raw, len(raw))
    return value


def _from_ort(value: Any) -> np.ndarray:
    raw = ctypes.string_at(value.data_ptr(), packed_bytes(value.element_type(), value.shape()))
    return from_bytes(raw, value.element_type(), value.shape())


def _trivial() -> bytes:
    """A model that no transformer changes."""
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()
