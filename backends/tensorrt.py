"""TensorRT and TensorRT for RTX: ONNX parser, builder, and execution on a GPU by Polygraphy.

The levels are the builder's optimisation levels. Networks are strongly typed, TF32 is off. Without
a GPU, TensorRT for RTX builds for a given compute capability, and nothing runs.
"""

from __future__ import annotations

import ctypes
import importlib
import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from nnfuzz.backend.complaint import CompilerError, Complaint, ComplaintKind, read_complaint
from nnfuzz.backend.contract import (
    Backend,
    BackendOptions,
    BackendUnavailable,
    IssueForm,
    NoDevice,
    Override,
    Program,
    option,
)
from nnfuzz.backend.target import DEFAULT

from .issue_forms import TENSORRT, TENSORRT_RTX

_UNSUPPORTED = re.compile(
    r"\bUNSUPPORTED_|API Usage Error|plugin not found|\bunsupported\b|not supported"
    r"|\bonly\b[^.\n]*\b(?:allow|support)|\bmust (?:be|have)\b.*\btype\b|HW-specific"
    r"|has no runners that implement it|initializer \S* ?cannot be imported",
    re.IGNORECASE,
)
"""Messages of the parser and of layers about unsupported models. "API Usage Error" is TensorRT's
category for operands that a layer forbids, such as inputs of rank 1, which ONNX allows."""
_NOISE = re.compile(r"^.*catchCudaError.*\n?", re.MULTILINE)
"""Without a GPU, every message ends with the complaint that there is no driver."""
_CONTEXT = re.compile(r"While parsing|--- (?:Begin|End) node|ERROR: |catchCudaError")
"""Lines that the parser logs around a cause, or as a summary of it."""
_BUILDING = re.compile(
    r"Error Code \d+: [\w ]+ \((?:\[(?P<file>\w+\.\w+):\d+: [^\]]*\] )?"
    r"(?:\w+Exception: (?P<place>\w+\.\w+):\d+: )?(?P<statement>.*?)\s*(?:In \w+ at \S+\)|\)?\Z)",
    re.DOTALL,
)
"""The message of one part of the builder, between the names of the parts that passed it on."""
_PARSED = re.compile(
    r"(?P<code>\w+) at (?P<operator>\S*) in (?P<place>\S*): (?P<statement>.*)", re.S
)
_REPRO = """\
def run(model, inputs, level):
    import {library} as trt

    logger = trt.Logger(trt.Logger.ERROR)  # it prints what goes wrong
    builder = trt.Builder(logger)
    typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    network = builder.create_network(0 if typed is None else 1 << int(typed))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model):
        error = parser.get_error(0)
        raise RuntimeError(f"{{error.code()}} at {{error.node_operator()}}: {{error.desc()}}")
    config = builder.create_builder_config()
    if level != "default":
        config.clear_flag(trt.BuilderFlag.TF32)
        config.builder_optimization_level = int(level[1:])
{settings}    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("the builder returned nothing; what it logged stands above")
{executed}"""
_BUILT = "    return {}  # built; to run it takes a GPU\n"
_EXECUTED = """\
    from polygraphy.backend.trt import EngineFromBytes, TrtRunner

    with TrtRunner(EngineFromBytes(bytes(plan))) as runner:
        return {name: np.array(array) for name, array in runner.infer(inputs).items()}
"""


class ParserError(RuntimeError):
    """A message of the form "CODE at OPERATOR in FILE:FUNCTION: MESSAGE"."""


class BuilderError(RuntimeError):
    """The messages that the builder logged before it returned nothing."""


class TensorRT(Backend):
    """OnnxParser.parse -> Builder.build_serialized_network -> polygraphy's TrtRunner."""

    name = "tensorrt"
    library: ClassVar[str] = "tensorrt"
    levels = ("O0", "O1", "O2", "O3", "O4", "O5")
    overrides = (Override("TF32=0", "products of float32 are computed in TF32"),)
    issue_form: ClassVar[IssueForm | None] = TENSORRT
    preload = ("tensorrt", "polygraphy")
    install = 'pip install tensorrt polygraphy, or "nnfuzz[tensorrt]" for TensorRT for RTX'

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        device: Literal["cuda"] = option("cuda", "where engines run")

    def versions(self) -> dict[str, str]:
        if not has_gpu():
            raise BackendUnavailable(f"{self.name} needs an NVIDIA GPU and its driver")
        return {self.name: self._library().__version__}

    def load(self, model: bytes) -> bytes:
        """Parses the model. Every level parses it again, because building changes the network."""
        self._parsed(self._library(), [], model)
        return model

    def build(self, module: bytes, level: str) -> Program:
        plan = self._plan(module, level)
        if not has_gpu():
            return _nowhere
        engine = _engine(plan)

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            foreign = [a.dtype.name for a in inputs.values() if a.dtype.kind == "V"]
            if foreign:
                raise NotImplementedError(f"Polygraphy takes no arrays of {foreign[0]}")
            return {name: np.array(a) for name, a in engine(inputs).items()}

        return run

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        """Reads structured errors of the parser, and lines of the builder's log."""
        error = replace(error, message=_NOISE.sub("", error.message).strip())
        parsed = _PARSED.fullmatch(error.message) if "ParserError" in error.error_type else None
        read = read_complaint(error)
        if parsed is None and "BuilderError" in error.error_type:
            refused = _UNSUPPORTED.search(error.message)
            read = _built(read, error.message)
            return read.of_kind(ComplaintKind.UNSUPPORTED) if refused else read
        if parsed is None:
            return read
        refuses = _UNSUPPORTED.search(f"{parsed['code']}\n{parsed['statement']}")
        kind = ComplaintKind.UNSUPPORTED if refuses else ComplaintKind.ERROR
        operators = (parsed["operator"],) if parsed["operator"] else ()
        return Complaint(kind, parsed["statement"], operators, (), parsed["place"])

    def repro(self) -> str:
        lines = "".join(f"    {line}\n" for line in self._chosen())
        executed = _EXECUTED if has_gpu() else _BUILT
        return _REPRO.format(library=self.library, settings=lines, executed=executed)

    def _chosen(self) -> tuple[str, ...]:
        """Lines of a repro script that set the device to build for."""
        return ()

    def _library(self) -> Any:
        return importlib.import_module(self.library)

    def _parsed(self, trt: Any, log: list[str], model: bytes) -> tuple[Any, ...]:
        """The builder, the network and the parser; their log messages are appended to `log`.

        Raises: ParserError with the first error and the log message that explains it.
        """
        logger = _logger(trt, log)
        builder = trt.Builder(logger)
        typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        network = builder.create_network(0 if typed is None else 1 << int(typed))
        parser = trt.OnnxParser(network, logger)
        if not parser.parse(model):
            first = parser.get_error(0)
            code = str(first.code()).rpartition(".")[2]
            place = f"{first.file()}:{first.func()}"
            cause = next((line for line in log if not _CONTEXT.search(line)), "")
            message = f"{first.desc()}\n{cause}" if cause else first.desc()
            raise ParserError(f"{code} at {first.node_operator()} in {place}: {message}")
        return builder, network, parser

    def _plan(self, model: bytes, level: str) -> bytes:
        trt, log = self._library(), list[str]()
        builder, network, _parser = self._parsed(trt, log, model)
        config = builder.create_builder_config()
        if level != DEFAULT:
            config.clear_flag(trt.BuilderFlag.TF32)
        if not level.startswith(DEFAULT):
            config.builder_optimization_level = int(level[1:])
        self._choose(trt, config)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise BuilderError("\n".join(log) or "the builder returned nothing")
        return bytes(plan)

    def _choose(self, trt: Any, config: Any) -> None:
        """Sets the device to build for; by default the GPU of this machine."""


def _built(read: Complaint, message: str) -> Complaint:
    """The builder's complaint, without the layers that were being processed and their names."""
    match = _BUILDING.search(message)
    if match is None or not match["statement"]:
        return read
    statement = match["statement"].rpartition("Error is:")[2].strip()
    place = match["place"] or match["file"] or read.location
    return replace(read, subject=statement, location=place)


class TensorRTForRTX(TensorRT):
    """TensorRT for RTX, another library that also builds without a GPU."""

    name = "tensorrt-rtx"
    library = "tensorrt_rtx"
    issue_form = TENSORRT_RTX
    preload = ("tensorrt_rtx", "polygraphy")
    install = 'pip install "nnfuzz[tensorrt]"'
    environment: ClassVar = {"POLYGRAPHY_USE_TENSORRT_RTX": "1"}

    @dataclass(frozen=True, kw_only=True)
    class Options(TensorRT.Options):
        capability: str = option("SM89", "compute capability to build for where there is no GPU")

    def versions(self) -> dict[str, str]:
        trt = self._library()
        if has_gpu():
            return {self.name: trt.__version__}
        config = trt.Builder(_logger(trt, [])).create_builder_config()
        self._choose(trt, config)
        return {self.name: trt.__version__, "device": f"none, builds for {self._capability()}"}

    def _capability(self) -> str:
        return self.options.capability

    def _chosen(self) -> tuple[str, ...]:
        capability = f"trt.ComputeCapability.{self._capability()}"
        built_for = f"config.set_compute_capability({capability}, 0)"
        return () if has_gpu() else ("config.num_compute_capabilities = 1", built_for)

    def _choose(self, trt: Any, config: Any) -> None:
        if has_gpu():
            return
        config.num_compute_capabilities = 1
        known = getattr(trt.ComputeCapability, self._capability(), None)
        if known is None or not config.set_compute_capability(known, 0):
            raise BackendUnavailable(f"{self.name} does not build for {self._capability()}")


def has_gpu() -> bool:
    """Whether NVIDIA's driver is installed and finds a GPU."""
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


def _nowhere(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    raise NoDevice


def _engine(plan: bytes) -> Any:
    """A function that runs a serialized engine on the GPU."""
    from polygraphy.backend.trt import EngineFromBytes, TrtRunner

    runner = TrtRunner(EngineFromBytes(plan))
    runner.activate()
    return runner.infer


def _logger(trt: Any, log: list[str]) -> Any:
    """A logger that appends errors to `log`."""

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.Severity.ERROR:
                log.append(message)

    return Log()
