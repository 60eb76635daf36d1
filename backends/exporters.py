"""PyTorch's exporters as systems under test: their models must compute what the module computes.

  eager      the module itself, operator by operator, with which the other levels are compared
  plain      the exporter's model without its own optimisation, if it has one
  optimised  the exporter's model by default

The model has to pass ONNX's checker and declare the outputs that the module has. It runs on ONNX
Runtime with its optimiser off. If that fails or returns anything else than the module, ONNX's
reference evaluator runs as well: for each output it may acquit the exporter, but never accuses it.
Tests do not avoid the known faults of an exporter (nnfuzz.operators.unexportable).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from textwrap import dedent
from typing import Any, ClassVar

import numpy as np

from nnfuzz.backend.complaint import CompilerError, Complaint, ComplaintKind, Stage, read_complaint
from nnfuzz.backend.contract import Backend, Program
from nnfuzz.backend.target import MODULE

from .frontends import to_array, to_tensor
from .issue_forms import PYTORCH
from .onnxruntime import OnnxRuntime

EAGER = "eager"
_SUMMARY = re.compile(r"## Exception summary\s+<class '[^']+'>: (.*?)(?:\n⬆|\n\n\(Refer|\Z)", re.S)
"""The innermost cause in a message of the exporter that uses torch.export."""
_STEPS = re.compile(r"^Failed to .*?Next steps:(?:\n- [^\n]*)*\n", re.DOTALL)
_ADVICE = re.compile(
    r"\s*(?:Please feel free to request support|If you are trying to|The error occurred when"
    r"|While executing|Original traceback|Use tlparse|\[Caused by the value).*",
    re.DOTALL,
)
_UNSUPPORTED = re.compile(
    r"No ONNX function found|^Unsupported: |not (?:yet |currently )?(?:supported|implemented)\b"
    r"|does not support\b|is not a valid JitScalarType\b",
    re.IGNORECASE,
)
_ILLEGAL = re.compile(r"typestr: \w+, has unsupported type: tensor\((\w+)\)")
"""Messages of ONNX's checker about a model that an exporter wrote."""


def check_exported(model, outputs):
    """Checks an exported onnx.ModelProto. Raises: ValidationError, InferenceError or ValueError if
    it is invalid, or declares other outputs than the arrays that the module returns."""
    import onnx

    onnx.checker.check_model(model, full_check=True)
    if len(model.graph.output) != len(outputs):
        raise ValueError(f"the exported model has {len(model.graph.output)} outputs")
    for value, array in zip(model.graph.output, outputs):
        type_ = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type)
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim]
        fits = len(sizes) == array.ndim and all(n in (None, m) for n, m in zip(sizes, array.shape))
        if dtype != array.dtype or (type_.HasField("shape") and not fits):
            raise ValueError(
                f"the exported model declares {dtype}{sizes} for an output that is "
                f"{array.dtype}{list(array.shape)}"
            )


class Exporter(OnnxRuntime):
    """Base of exporters from a module of PyTorch's own operators to ONNX."""

    reads = MODULE
    loads_files = False
    levels: ClassVar[tuple[str, ...]] = (EAGER, "plain", "optimised")
    baseline = EAGER
    compiling = Stage.EXPORT
    steps: ClassVar[tuple[str, ...]] = ()
    optimisation: ClassVar = dict.fromkeys(levels, "ORT_DISABLE_ALL")
    preload: ClassVar[tuple[str, ...]] = ("torch", "torch.onnx", "onnx.reference", "onnxruntime")
    issue_form = PYTORCH
    install = 'pip install "nnfuzz[onnxruntime,dynamo]"'

    @staticmethod
    @abstractmethod
    def export(module: Any, arguments: Sequence[Any], level: str, opset: int | None) -> bytes:
        """A module and tensors to trace it with -> a serialised model with inputs x0, x1, ...

        opset: None leaves the choice to the exporter. Unused inputs may be missing in the model.
        The source of this method becomes part of repro scripts.
        """

    def versions(self) -> dict[str, str]:
        packages = dict.fromkeys(module.partition(".")[0] for module in self.preload)
        releases = {n: version(n) for n in packages if n != "onnxruntime"}
        return releases | super().versions()

    def load(self, model: Any) -> Any:
        """Traces the module."""
        model.module  # noqa: B018
        return model

    def build_without(self, module: Any, level: str, passes: Collection[str]) -> Program:
        if level == EAGER:
            return lambda inputs: module.results(ran(module, module.arguments(inputs)))
        arguments, results = example(module)
        data = self.export(fresh(module), arguments, level, self.options.opset or None)
        return self._evaluated(module, data, [to_array(x) for x in results], level)

    def _evaluated(
        self, module: Any, data: bytes, like: Sequence[np.ndarray], level: str
    ) -> Program:
        """A program that runs the model on ONNX Runtime. Raises: errors of ONNX's checker."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        model = onnx.load_model_from_string(data)
        check_exported(model, like)
        names = [value.name for value in model.graph.input]
        order = [value.name for value in model.graph.output]
        session = attempted(lambda: OnnxRuntime.build_without(self, data, level, ()))
        reference = attempted(lambda: partial(ReferenceEvaluator(model).run, None))

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            arguments = module.arguments(inputs)
            given = {f"x{k}": to_array(x) for k, x in enumerate(arguments)}
            fed = {name: given[name] for name in names}
            wanted = [to_array(x) for x in ran(module, arguments)]
            try:
                results = session(fed)
            except Exception as error:
                raise blamed(error, partial(reference, fed)) from error
            arrays = nearest([results[name] for name in order], wanted, partial(reference, fed))
            return module.results([to_tensor(array) for array in arrays])

        return run

    def fired_passes(self, module: Any, level: str) -> list[str]:
        raise NotImplementedError(f"{self.name} does not tell its passes")

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        """Reads the innermost cause from the message, without advice."""
        if error.error_type.startswith("onnxruntime"):
            return super().complaint(error)
        return exporters_complaint(error)

    def repro(self) -> str:
        return self._with_export(super().repro())

    def repro_foreign(self) -> str:
        return self._with_export(super().repro_foreign())

    def _with_export(self, script: str) -> str:
        """The repro program: export, check, and ONNX Runtime's script with `run` renamed."""
        parts = [source_of(self.export)]
        parts += [inspect.getsource(function) for function in (check_exported, to_array)]
        parts += [script.replace("def run(", "def run_onnx(")]
        return "\n\n".join(parts) + _REPRO.format(opset=self.options.opset or None)


_REPRO = """

def run(module, inputs, level):
    import onnx

    arguments = [to_torch(inputs[name]) for name in module.inputs]
    with torch.no_grad():
        arrays = [to_array(tensor) for tensor in module(*arguments)]
    if level != "eager":
        model = export(module, arguments, level, {opset})
        proto = onnx.load_model_from_string(model)
        check_exported(proto, arrays)
        given = {{f"x{{k}}": to_array(x) for k, x in enumerate(arguments)}}
        fed = {{value.name: given[value.name] for value in proto.graph.input}}
        returned = run_onnx(model, fed, level)
        arrays = [returned[value.name] for value in proto.graph.output]
    outputs = {{}}
    for (name, dtype), array in zip(module.outputs.items(), arrays):
        same = dtype == "uint64"
        outputs[name] = array.view(np.uint64) if same else array.astype(np.dtype(dtype))
    return outputs
"""


class TorchScript(Exporter):
    """torch.onnx.export(dynamo=False); level "plain" has no constant folding."""

    name = "exporter-torchscript"

    @staticmethod
    def export(module, arguments, level, opset):
        import io

        import torch

        buffer = io.BytesIO()
        torch.onnx.export(
            module,
            tuple(arguments),
            buffer,  # type: ignore[arg-type]
            input_names=[f"x{k}" for k in range(len(arguments))],
            opset_version=opset,
            dynamo=False,
            do_constant_folding=level == "optimised",
        )
        return buffer.getvalue()


class Dynamo(Exporter):
    """torch.onnx.export(dynamo=True); level "plain" does without onnxscript's optimizer."""

    name = "exporter-dynamo"
    preload = ("torch", "onnxscript", "torch.onnx._internal.exporter._core", *Exporter.preload[1:])

    def versions(self) -> dict[str, str]:
        """Also caches the exporter's table of functions, which takes 0.5 s for every model."""
        with contextlib.suppress(ImportError, AttributeError):
            registration = importlib.import_module("torch.onnx._internal.exporter._registration")
            table = registration.ONNXRegistry.from_torchlib
            if not hasattr(table, "cache_info"):
                registration.ONNXRegistry.from_torchlib = staticmethod(functools.lru_cache(table))
        return super().versions()

    @staticmethod
    def export(module, arguments, level, opset):
        import torch

        program = torch.onnx.export(
            module,
            tuple(arguments),
            input_names=[f"x{k}" for k in range(len(arguments))],
            opset_version=opset,
            dynamo=True,
            optimize=level == "optimised",
            verbose=False,
        )
        return program.model_proto.SerializeToString()  # type: ignore[union-attr]


class TorchExport(Backend):
    """torch.export run by PyTorch: the program as it is, and with its default decompositions."""

    name = "torch-export"
    reads = MODULE
    levels = (EAGER, "exported", "decomposed")
    baseline = EAGER
    compiling = Stage.EXPORT
    preload = ("torch",)
    issue_form = PYTORCH

    @staticmethod
    def export(module, arguments, level):
        import torch

        program = torch.export.export(module, tuple(arguments), strict=False)
        if level == "decomposed":
            program = program.run_decompositions()
        return program.module()

    def versions(self) -> dict[str, str]:
        return {"torch": version("torch")}

    def load(self, model: Any) -> Any:
        """Traces the module."""
        model.module  # noqa: B018
        return model

    def build(self, module: Any, level: str) -> Program:
        program = fresh(module)
        if level != EAGER:
            program = self.export(program, example(module)[0], level)

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return module.results(computed(program, module.arguments(inputs)))

        return run

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        return exporters_complaint(error)

    def repro(self) -> str:
        return f"{source_of(self.export)}\n\n{_REPRO_MODULE}"


_REPRO_MODULE = """\
def run(module, inputs, level):
    arguments = [to_torch(inputs[name]) for name in module.inputs]
    program = module if level == "eager" else export(module, arguments, level)
    with torch.no_grad():
        results = program(*arguments)
    return {name: to_numpy(x, dtype) for (name, dtype), x in zip(module.outputs.items(), results)}
"""


def source_of(export: Callable[..., Any]) -> str:
    """The source of a static method, as a function of a script."""
    source = dedent(inspect.getsource(export)).removeprefix("@staticmethod\n")
    return re.sub(r"  # type: .*", "", source)


def exporters_complaint(error: CompilerError) -> Complaint:
    """Reads an error message of PyTorch's exporters, without steps and advice.

    A message of ONNX's checker about a dtype gives the same complaint for every operator.
    """
    if illegal := _ILLEGAL.search(error.message):
        return Complaint(ComplaintKind.DTYPE, f"an operator of ONNX does not take {illegal[1]}")
    summary = _SUMMARY.search(error.message)
    cause = summary.group(1) if summary else _STEPS.sub("", error.message)
    cause = _ADVICE.sub("", cause).strip() or error.message
    complaint = read_complaint(replace(error, message=cause))
    unsupported = error.error_type.endswith("UnsupportedOperatorError") or (
        error.stage is Stage.EXPORT and _UNSUPPORTED.search(cause)
    )
    return complaint.of_kind(ComplaintKind.UNSUPPORTED) if unsupported else complaint


def fresh(source: Any) -> Any:
    """A copy of the module, which an exporter may change."""
    import copy

    return copy.deepcopy(source.module).eval()


def computed(program: Any, arguments: Sequence[Any]) -> list[Any]:
    """The results of a module for tensors, without gradients."""
    import torch

    with torch.no_grad():
        return [x.detach() for x in program(*arguments)]


def ran(source: Any, arguments: Sequence[Any]) -> list[Any]:
    return computed(source.module, arguments)


def example(source: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """Example tensors for the module (zeros, or ones if zeros fail), and its results.

    Raises: NotImplementedError if the module runs on neither.
    """
    for fill in (np.zeros, np.ones):
        types = {n: source.graph.type(n) for n in source.graph.inputs}
        arguments = source.arguments({n: fill(t.sizes, t.dtype.numpy) for n, t in types.items()})
        try:
            return arguments, ran(source, arguments)
        except (RuntimeError, IndexError, ValueError):
            continue
    raise NotImplementedError("the module runs on neither zeros nor ones, which it is traced with")


def attempted(make: Callable[[], Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """The result of `make`; if it fails, a function that raises the same error when called."""
    try:
        return make()
    except Exception as error:
        failed = error

    def raises(inputs: Any) -> Any:
        raise failed

    return raises


def blamed(error: Exception, reference: Callable[[], Any]) -> Exception:
    """ONNX Runtime's error; NotImplementedError if the reference evaluator runs the model."""
    try:
        reference()
    except Exception:
        return error
    return NotImplementedError(f"ONNX Runtime fails on a model that ONNX's evaluator runs: {error}")


def nearest(
    outputs: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    reference: Callable[[], Sequence[np.ndarray]],
) -> Sequence[np.ndarray]:
    """For each output, ONNX Runtime's result or the reference evaluator's, whichever is closer to
    `wanted`. The evaluator runs only if a result of ONNX Runtime differs from `wanted`."""
    if not any(map(distance, outputs, wanted)):
        return outputs
    try:
        other = reference()
    except Exception:
        return outputs
    candidates = zip(zip(outputs, other), wanted)
    return [min(pair, key=partial(distance, wanted=like)) for pair, like in candidates]


def distance(array: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference of two elements; infinite if dtype, shape or places of NaN differ."""
    array = np.asarray(array)
    if (array.dtype, array.shape) != (wanted.dtype, wanted.shape):
        return np.inf
    one, other = array.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        differences = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0, one - other)
    worst = np.max(np.abs(differences), initial=0)
    return float(worst) if worst == worst else np.inf
