"""OpenVINO, CPU device, in float32 arithmetic.

The levels are settings of its CPU plug-in. No property switches off most transformations, so that
they run at all levels:
  O0       without Snippets, the code generator that fuses operations, and without the
           transformations that compute quantised models in integers
  O3       the defaults
  dynamic  all sizes of the inputs are unknown when the model is compiled
  streams  two streams, with four requests in flight at the same time
  cached   the compiled model is exported, as for a model cache, and imported again
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np

from nnfuzz.backend.complaint import CompilerError, Complaint, ComplaintKind, read_complaint
from nnfuzz.backend.contract import Backend, BackendOptions, Override, Program, option
from nnfuzz.backend.interface import OnnxModel, from_bytes, to_bytes
from nnfuzz.backend.target import DEFAULT, ONNX, Pipeline

from .frontends import (
    FORM,
    NAMED,
    OPENVINO_RESULTS,
    REPRO_OPENVINO,
    carried,
    openvino_model,
)
from .issue_forms import OPENVINO
from .openvino_trace import Trace, plainest, traced

_OVERRIDES = (
    Override("INFERENCE_PRECISION_HINT=f32", "float32 is computed in bfloat16 on CPUs with AMX"),
    Override("DYNAMIC_QUANTIZATION_GROUP_SIZE=0", "activations are int8 beside compressed weights"),
    Override("KV_CACHE_PRECISION=f32", "keys and values of Attention are uint8"),
    Override("INFERENCE_NUM_THREADS=1", "results do not depend on the machine", exact=False),
    Override("NUM_STREAMS=1", "results do not depend on the machine", exact=False),
)
_EXACT = dict(own.step.split("=") for own in _OVERRIDES)
_USUAL = dict(own.step.split("=") for own in _OVERRIDES if not own.exact)
_SWITCHES: dict[str, dict[str, Any]] = {
    "LowPrecision": {"LP_TRANSFORMS_MODE": False},
    "Snippets": {"SNIPPETS_MODE": "DISABLE"},
}
"""Groups of passes, in the order of their run, with the property that switches each group off."""
_LEVELS: dict[str, dict[str, Any]] = {
    "O0": _SWITCHES["LowPrecision"] | _SWITCHES["Snippets"],
    "O3": {},
    "dynamic": {},
    "streams": {"INFERENCE_NUM_THREADS": 2, "NUM_STREAMS": 2},
    "cached": {},
    DEFAULT: {},
}
_REQUESTS = {"streams": 4}
# Types that NumPy knows only through ml_dtypes -> onnx.TensorProto.DataType.
_FOREIGN = {"bf16": 16, "f8e4m3": 17, "f8e5m2": 19, "u4": 21, "i4": 22}
_ITEM = re.compile(
    r"^-- ([\w.]+?)(?:-\d+)? with a message:\n(.*?)(?=^-- \w|^Summary:|\Z)", re.M | re.S
)
"""Entries of the list of ONNX operators that the importer could not convert."""
_LACKING = re.compile(r"^-- (No conversion rule found for operations: (.*))", re.M)
_THROWN = re.compile(r"\[([\w:]+)\] END: node: .*? CALLBACK HAS THROWN: ")
_PLACE = re.compile(r"(?:failed at|Exception from) \S*?([\w-]+\.[ch]pp):\d+")
_NODE = re.compile(r"ONNX node '<Node\((\w+)\)")
_CONTEXT = re.compile(
    r"Exception from |Check '.*' failed at|While validating |FrontEnd API failed|Summary:|Details:"
    r"|Shape inference input shapes|Unsupported operation of type|Not Implemented:"
    r"|Cannot fallback on ngraph|Model wasn't fully converted"
)
"""Lines before or after the cause in a message."""
_UNSUPPORTED = re.compile(
    r"No conversion|\bnot (?:yet |currently )?(?:supported|implemented)|unsupported"
    r"|\b(?:does|do)(?:n't| not) support|\bonly supports?\b|\bsupport(?:s|ed) only\b"
    r"|\bonly supported\b|\bexpects Constant\b|\bunknown activation\b|\blimitation: "
    r"|\bthe implementation provides \d+ outputs?\b",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(r"\bdynamic\b|\bstatic\b|\bis unknown\b|\bto be known\b")
"""A type, rank or size that OpenVINO calls unknown, although nnfuzz declares it."""
_REPRO = """\
def run(model, inputs, level):
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import numpy_helper

    config = {{**({usual!r} if level == "default" else {exact!r}), **{levels!r}[level]}}
    core = ov.Core()
{read}
    if level == "dynamic":
        graph.reshape({{p: ov.PartialShape([-1] * len(p.partial_shape)) for p in graph.inputs}})
    compiled = core.compile_model(graph, "CPU", config)
    if level == "cached":
        compiled = core.import_model(compiled.export_model(), "CPU", config)
    requests = [compiled.create_infer_request() for _ in range({requests!r}.get(level, 1))]
    for request in requests:
        for port in request.model_inputs:  # an input that is not used is none
            (name,) = port.names & inputs.keys()
            raw = np.frombuffer(numpy_helper.from_array(inputs[name]).raw_data, np.uint8)
            tensor = ov.Tensor(port.element_type, inputs[name].shape)
            tensor.data.reshape(-1).view(np.uint8)[:] = raw
            request.set_tensor(name, tensor)
        request.start_async()
    for request in requests:
        request.wait()
    outputs = {{}}
{results}
    return outputs
"""
_READ, _RESULTS = (
    "    graph = core.read_model(model)",
    """\
    proto = onnx.load(model) if isinstance(model, str) else onnx.load_model_from_string(model)
    for value in proto.graph.output:
        tensor = request.get_tensor(value.name)
        type_ = value.type.tensor_type.elem_type
        packed = onnx.TensorProto(data_type=type_, dims=list(tensor.shape))
        packed.raw_data = tensor.data.tobytes()
        outputs[value.name] = numpy_helper.to_array(packed)""",
)


class OpenVino(Backend):
    """Core.read_model -> Core.compile_model -> InferRequest.infer."""

    name = "openvino"
    levels = tuple(name for name in _LEVELS if name != DEFAULT)
    overrides = _OVERRIDES
    issue_form = OPENVINO
    domains = ("com.microsoft",)
    loads_files = True
    preload = ("openvino",)
    install = 'pip install "nnfuzz[openvino]"'
    distribution = "openvino"
    # ovc, which converts PyTorch programs, would report each to Intel unless it runs in CI.
    environment: ClassVar = {"CI": "true"}
    collections: ClassVar = dict.fromkeys(_SWITCHES, ())
    # The CPU plug-in converts these types before anything else (ConvertPrecision).
    narrows: ClassVar = {
        "float64": "float32",
        "int64": "int32",
        "uint64": "int32",
        "uint32": "int32",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        form: Literal["onnx", "exported"] = option("onnx", FORM)

    @classmethod
    def default_levels(cls) -> tuple[str, ...]:
        return ("O0", "O3", "dynamic")

    def versions(self) -> dict[str, str]:
        import openvino

        return {"openvino": openvino.__version__}

    def load(self, model: Any) -> Any:
        import openvino

        if not isinstance(model, OnnxModel):
            return openvino_model(model), model.outputs, model
        return openvino.Core().read_model(model.path_or_bytes), model.output_names, None

    def build(self, module: Any, level: str) -> Program:
        return self.build_without(module, level, ())

    def fired_passes(self, module: Any, level: str) -> list[str]:
        """Returns all groups of passes that can be switched off, because OpenVINO does not report
        which changed anything."""
        return [] if level == "O0" else list(_SWITCHES)

    def changed_passes(self, module: Any, level: str) -> list[str]:
        """Returns the passes that report a change in the trace, but for those that report one of
        the plainest model as well."""
        always = _always_changing(level)
        return [name for name in _trace_of(module[0], level).changed if name not in always]

    def known_passes(self, module: Any, level: str) -> list[str]:
        """Returns the passes in the trace, without those that always report a change. Passes for
        quantised models appear only if the model is quantised."""
        always = _always_changing(level)
        return [name for name in _trace_of(module[0], level).ran if name not in always]

    def build_without(self, module: Any, level: str, passes: Collection[str]) -> Program:
        compiled = _compiled(module[0], level, passes)
        requests = [compiled.create_infer_request() for _ in range(_REQUESTS.get(level, 1))]

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            for request in requests:
                for port in compiled.inputs:  # unused inputs have no port
                    name = _named(port, inputs)
                    request.set_tensor(name, _tensor(inputs[name], port.element_type))
                request.start_async()
            for request in requests:
                request.wait()
            return {name: _array(request.get_tensor(name)) for name in module[1]}

        return run if module[2] is None else carried(module[2], run)

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        """Reads the cause from the last line. If the importer lists several operators, those with a
        cause of their own come first; consequences such as an unknown type or size are left out."""
        if not error.error_type:
            return read_complaint(error)
        if lacking := _LACKING.search(error.message):
            names = [name.partition("-")[0] for name in lacking[2].split(", ")]
            return Complaint(ComplaintKind.UNSUPPORTED, lacking[1], tuple(names))
        complaints = [_read(text, (name,)) for name, text in _ITEM.findall(error.message)]
        complaints = complaints or [_read(error.message, tuple(_NODE.findall(error.message)[-1:]))]
        own = [c for c in complaints if not _UNKNOWN.search(c.subject)] or complaints
        first = min(own, key=lambda c: c.kind is ComplaintKind.UNSUPPORTED)
        others = tuple((c.subject, c.location) for c in own if c is not first)
        return replace(first, others=others)

    def repro(self) -> str:
        parts = {"exact": _EXACT, "usual": _USUAL, "levels": _LEVELS, "requests": _REQUESTS}
        if self.form == ONNX:
            return _REPRO.format(**parts, read=_READ, results=_RESULTS)
        return NAMED + _REPRO.format(**parts, read=REPRO_OPENVINO, results=OPENVINO_RESULTS)


def _read(message: str, operators: tuple[str, ...]) -> Complaint:
    """Reads one complaint without the text around it."""
    thrown, places = _THROWN.search(message), _PLACE.findall(message)
    lines = [line.strip() for line in _THROWN.sub("\n", message).splitlines()]
    stated = [line for line in lines if line and not _CONTEXT.match(line)]
    subject = stated[-1] if stated else next((line for line in reversed(lines) if line), "")
    location = thrown[1] if thrown else places[-1] if places else ""
    return Complaint(_kind(subject), subject, operators, (), location)


def _kind(subject: str) -> ComplaintKind:
    if _UNKNOWN.search(subject) and not re.search("doesn't support", subject, re.IGNORECASE):
        told_type = re.search(r"\btypes?\b", subject)
        return ComplaintKind.DTYPE if told_type else ComplaintKind.SHAPE
    return ComplaintKind.UNSUPPORTED if _UNSUPPORTED.search(subject) else ComplaintKind.ERROR


def _trace_of(model: Any, level: str) -> Trace:
    with traced() as trace:
        _compiled(model, level, ())
    return trace


@cache
def _always_changing(level: str) -> frozenset[str]:
    """The passes that report a change even of the plainest model."""
    return frozenset(_trace_of(plainest(), level).changed)


def _compiled(model: Any, level: str, without: Collection[str]) -> Any:
    import openvino

    pipeline, core = Pipeline.parse(level), openvino.Core()
    level = pipeline.level
    exact = _USUAL if level == DEFAULT else _EXACT
    config = {**exact, **_LEVELS[level], **dict(step.split("=") for step in pipeline.steps)}
    for name in without:
        config |= _SWITCHES[name]
    if level == "dynamic":
        model = model.clone()
        ranks = {port: len(port.partial_shape) for port in model.inputs}
        model.reshape({port: openvino.PartialShape([-1] * rank) for port, rank in ranks.items()})
    compiled = core.compile_model(model, "CPU", config)
    if level == "cached":
        return core.import_model(compiled.export_model(), "CPU", config)
    return compiled


def _named(port: Any, inputs: Mapping[str, Any]) -> str:
    """The name of the input that belongs to a port. Raises: RuntimeError if the name was lost."""
    if known := port.names & inputs.keys():
        return known.pop()
    raise RuntimeError(f"the compiled model has lost an input's name: it is {sorted(port.names)}")


def _tensor(array: np.ndarray, type_: Any) -> Any:
    """An openvino.Tensor with the elements of an array of any dtype."""
    import openvino

    tensor = openvino.Tensor(type_, array.shape)  # a view would not keep the array alive
    tensor.data.reshape(-1).view(np.uint8)[:] = np.frombuffer(to_bytes(array), np.uint8)
    return tensor


def _array(tensor: Any) -> np.ndarray:
    """A copy of a tensor as an array, because the request's memory is reused."""
    foreign = _FOREIGN.get(tensor.element_type.get_type_name())
    if foreign is None:
        return np.array(tensor.data)
    return from_bytes(tensor.data.tobytes(), foreign, tensor.shape)
