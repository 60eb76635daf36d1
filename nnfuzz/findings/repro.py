"""repro.py: a script that shows one failure with the compiler, onnx and NumPy alone."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnfuzz.backend import costs
from nnfuzz.backend.contract import Backend, InputChanged
from nnfuzz.backend.interface import OnnxModel
from nnfuzz.backend.outcome import COSTS, Outcome, OutcomeKind
from nnfuzz.backend.registry import NONE, BackendRegistry, BackendSpec, PluginFiles
from nnfuzz.backend.target import EXPORTED, MODULE, Pipeline
from nnfuzz.base.external_data import names_files
from nnfuzz.base.text import visible
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Element
from nnfuzz.findings import text
from nnfuzz.findings.text import environment
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.sizes import at_one_size
from nnfuzz.materialize.opsets import is_called
from nnfuzz.materialize.walk import graphs
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.mismatch import WrongOutput, wrong_outputs
from nnfuzz.triage.signature import HabitDetails, wrong_of

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnx import ModelProto, TensorProto

    from nnfuzz.testcase.case import TestCase

MEMORY_BYTES = 8 << 30
"""Data segment that the script allows itself where the failure is a lack of memory."""

_VARYING = r"[^\s'\":,()<>|]*/[^\s'\":,()<>|]*|\\[xuU][0-9a-f]+|0x[0-9a-fA-F]+|\bTMP\b"
"""Parts of a message that change from run to run: paths, escaped characters, addresses, temporary
files as nnfuzz.findings.text.impersonal writes them; beside these, numbers."""
_WORD, _MOST_WORDS = "[A-Za-z_]{2,}", 40

_PLUGINS = """\
    plugins = []
    for plugin in BACKEND["plugins"]:
        beside = Path(__file__).resolve().with_name(Path(plugin).name)
        plugins.append(str(beside if beside.is_file() else Path(plugin).expanduser()))
    spec = BackendSpec.from_json({{**BACKEND, "plugins": plugins}})
"""
"""Plug-ins lie beside the script, or where they were."""

_WHOLE = """

run_whole = run


def run(model, inputs, level):  # the compiler gets a model with external data as a whole
    import onnx

    return run_whole(onnx.load(model).SerializeToString(), inputs, level)
"""

_PACKED = """

run_packed = run
INSIDE = {inside!r}  # maps and texts of the model with the tensors in them, and given numbers


def run(model, inputs, level):
    inputs = {{**inputs}}
    for name, (kind, dtype, *tensor, given) in INSIDE[0].items():
        if kind == "numbers":
            inputs[name] = np.array(given, dtype)
        else:
            inputs[name] = inputs.pop(*tensor).astype(str).astype(object)
    outputs = {{**run_packed(model, inputs, level)}}
    for name, (kind, dtype, tensor, keys) in INSIDE[1].items():
        items = outputs.pop(name)
        if kind == "text":
            outputs[tensor] = numbers(name, items, dtype)
        else:
            outputs[tensor] = np.array([[row[key] for key in keys] for row in items], dtype)
    return outputs


def numbers(name, strings, dtype):
    try:
        return strings.astype(dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"output {{name!r}} has no numbers: {{error}}") from error
"""

_FALLBACK = f"""\
# No program of the compiler alone shows the failure: the script needs nnfuzz.
BACKEND = {{spec}}


def run(model, inputs, level):
    from pathlib import Path

    from nnfuzz.backend.registry import BackendSpec
    from nnfuzz.base.untrusted import read_embedded

{_PLUGINS}    backend = spec.load()
    model = read_embedded(model) if isinstance(model, str) else model
    program = backend.compile(backend.import_model(model), level)
    return program(inputs)
"""


_FALLBACK_MODULE = f"""\
# The module is too large to be written out: the script needs nnfuzz.
BACKEND = {{spec}}


def run(model, inputs, level):
    from pathlib import Path

    from nnfuzz.backend.modules import read_source
    from nnfuzz.backend.registry import BackendSpec
    from nnfuzz.findings.folder import read_finding

{_PLUGINS}    backend = spec.load()
    data = read_finding(HERE).case.source(backend.form)
    source = read_source(data, spec.plugins, backend.device)
    program = backend.compile(backend.import_model(source), level)
    return program(inputs)
"""


def inlined(finding: Finding) -> dict[str, str] | None:
    """Model and inputs as source, if both are small enough to be written out. An invalid model is
    not read here: it stays a file.
    """
    case = finding.case
    if case.fault or finding.origin.verbatim or names_files(case.model):
        return None
    inputs = inline_arrays(case.inputs)
    if takes_module(finding):
        return {"inputs": text.Quoted(inputs)} if inputs and module_text(finding) else None
    model = inline_model(case.model) if case.model and inputs else ""
    return {"model": text.Quoted(model), "inputs": text.Quoted(inputs)} if model else None


def takes_module(finding: Finding) -> bool:
    """Whether the failing backend reads PyTorch, so that the ONNX model is not at fault."""
    return finding.failure.targets[0].form in (MODULE, EXPORTED)


def module_text(finding: Finding) -> str:
    """The test case as source of PyTorch; "" where it is ONNX that fails, or nobody wrote it."""
    return (finding.localisation or {}).get("module", "")


def program_of(
    spec: BackendSpec,
    registry: BackendRegistry | None = None,
    case: TestCase | None = None,
    levels: Iterable[str] = (),
    any_dtype: bool = False,
) -> str | None:
    """The backend's own source of `def run(model, inputs, level)`; None if it offers none.

    case, levels: those that it runs: dtypes may need more than NumPy, and pipelines were drawn.
    any_dtype: whether it is for cases to come, whose dtypes may need more than NumPy.

    Raises: RegistryError, OptionError.
    """
    backends = registry or BackendRegistry.discover(spec.plugins)
    backend = backends.get(spec.name)(**spec.options)
    if backend.own_repro() is None:
        return None
    more = any_dtype or (case is not None and foreign(case))
    built = dict.fromkeys(Pipeline.parse(level).built for level in levels)
    drawn = [pipeline for pipeline in built if pipeline.steps]
    if drawn:
        program = backend.repro_drawn(drawn, more)
    else:
        program = backend.repro_foreign() if more else backend.repro()
    return _fitted(program, backend, case) if program and case is not None else program


def compiled_once(program: str) -> str:
    """The source of `def compiled(model, level)`, which returns a program, made of the source of
    `def run(model, inputs, level)`. The statements before the first that reads the inputs compile;
    the others are the program.
    """
    lines, tree = program.splitlines(keepends=True), ast.parse(program)
    named = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "run"]
    own = named[-1]
    model, inputs, level = (argument.arg for argument in own.args.args)

    def reads(statement: ast.stmt) -> bool:
        return any(isinstance(n, ast.Name) and n.id == inputs for n in ast.walk(statement))

    cut = next(s.lineno for s in own.body if reads(s)) - 1
    while lines[cut - 1].lstrip().startswith("#"):
        cut -= 1
    inside = [f"    {line}" if line.strip() else line for line in lines[cut : own.end_lineno]]
    head = [f"def compiled({model}, {level}):\n", *lines[own.lineno : cut]]
    body = [f"\n    def call({inputs}):\n", *inside, "\n    return call\n"]
    return "".join([*lines[: own.lineno - 1], *head, *body, *lines[own.end_lineno :]])


def _fitted(program: str, backend: Backend, case: TestCase) -> str:
    """The program for a model that has external data, or maps and texts at its ends."""
    if not case.model or case.fault:
        return program
    if names_files(case.model) and not backend.loads_files:
        return f"{program}{_WHOLE}"
    model = OnnxModel(case.model)
    packings = model.packed_inputs, model.packed_outputs
    inside = [
        {n: (v.kind.name.lower(), v.dtype, *v.tensors, v.keys or v.numbers) for n, v in own.items()}
        for own in packings
    ]
    return program + _PACKED.format(inside=inside) if any(inside) else program


def repro_script(finding: Finding, program: str | None, plugins: PluginFiles = NONE) -> str:
    """The text of repro.py; `program` as `program_of` returns it.

    plugins: files beside the script.
    """
    failure, wrong = finding.failure, output_of_finding(finding)
    outcome = failing_outcome(finding)
    module = module_text(finding)
    case = finding.case
    several = is_called(case.exporter) and (at_one_size(case.graph) or not takes_module(finding))
    counting = _costs(failure.kind, outcome)
    inline = inlined(finding)
    by_nnfuzz = not module if takes_module(finding) else program is None
    if takes_module(finding) and not module:
        program = _FALLBACK_MODULE.format(spec=text.python(_spec_json(finding)))
    elif program is None:
        program = _FALLBACK.format(spec=text.python(_spec_json(finding)))
    if several or counting:
        program = compiled_once(program)
    expected = _expected(finding, wrong)
    return (
        environment()
        .get_template("repro.py.jinja")
        .render(
            title=failure.signature.title,
            needs=_needs(finding, inline is not None, plugins if by_nnfuzz else None),
            levels=[o.level for o in finding.outcomes if o.backend == failure.backend],
            level=failure.levels[0],
            kind=(OutcomeKind.MISMATCH if wrong else failure.kind).value,
            exit_codes=exit_codes(outcome, failure.kind),
            expectation=_expectation(finding, outcome),
            program=text.Quoted(program.strip("\n") + "\n"),
            inline=inline,
            module=text.Quoted(module.strip()),
            foreign=foreign(finding.case),
            loads_file=not finding.case.fault and names_files(finding.case.model),
            several=several or counting,
            counting=text.Quoted(counting),
            rival=outcome.rival if outcome else "",
            ways={Pipeline.parse(o.level).way for o in finding.outcomes} if several else (),
            runner=text.Quoted("run_calls" if several else "run"),
            expected_dtype=str(expected.dtype) if expected is not None else "",
            expected_shape=expected.shape if expected is not None else (),
            wrong=wrong,
            index=wrong.worst.index if wrong and wrong.worst else (),
            worst=_worst(finding, wrong),
            timeout=60,
            invalid=finding.case.fault is not None,
            error_type=outcome.error_type if outcome else "",
            seen=_seen(finding, by_nnfuzz) if failure.kind is OutcomeKind.EXCEPTION else [],
            varying=_VARYING,
            word=_WORD,
            varies=bool(outcome and outcome.complaint and outcome.complaint.varies),
            most_words=_MOST_WORDS,
            writes=bool(outcome and outcome.error_type.endswith(InputChanged.__name__)),
            lacking=text.Quoted(", ".join(_lacking(outcome))),
            memory_limit=MEMORY_BYTES if outcome and outcome.over_memory_limit else 0,
        )
    )


def output_of_finding(finding: Finding) -> WrongOutput | None:
    """The wrong output that the finding is about, at the first level where it is."""
    failure = finding.failure
    if failure.kind is not OutcomeKind.MISMATCH:
        return None
    by_habit = isinstance(failure.signature.details, HabitDetails)
    candidates = wrong_outputs(finding.verdict, by_habit)
    mine = [w for w in candidates if w.target in failure.targets]
    kind = wrong_of(failure.signature.details)
    order = {n: i for i, node in enumerate(finding.case.graph.nodes) for n in node.outputs}
    mine = [w for w in mine if w.kind == kind] or mine
    return min(mine, key=lambda w: order.get(w.output, len(order)), default=None)


def failing_outcome(finding: Finding) -> Outcome | None:
    """The outcome at the first level that fails."""
    failure = finding.failure
    for outcome in finding.outcomes:
        if outcome.backend == failure.backend and outcome.level in failure.levels:
            return outcome
    return None


def _seen(finding: Finding, by_nnfuzz: bool) -> list[tuple[str, str]]:
    """Types and words of the errors at the levels that fail, as a script computes them of its own.

    by_nnfuzz: whether it uses nnfuzz; else _PACKED raises ValueError in place of an OutputError.
    """
    seen: dict[tuple[str, str], None] = {}
    for outcome in finding.outcomes:
        if outcome.backend == finding.failure.backend and outcome.level in finding.failure.levels:
            module, _, name = outcome.error_type.rpartition(".")
            complaint = outcome.complaint
            said = complaint.subject if complaint and complaint.varies else outcome.message
            raised = outcome.traceback.rpartition(f"\n{outcome.error_type}: ")[2].strip()
            name = name if by_nnfuzz or not module.startswith("nnfuzz.") else ValueError.__name__
            for spoken in (said, raised or said):  # Backend.console may have taken its place
                words = re.findall(_WORD, re.sub(_VARYING, " ", spoken))
                seen[name, " ".join(words[:_MOST_WORDS])] = None
    return [*seen]


def accepted_bounds(worst: Element, dtype: np.dtype) -> tuple[object, object]:
    """The bounds that the verdict accepts for an element: its envelope, wider by one unit in the
    last place.

    The rule of nnfuzz.compare.verdict.outside.
    """
    if not DType.of(dtype).is_float:
        return worst.lo, worst.hi
    with np.errstate(over="ignore", invalid="ignore"):
        ulp = float(np.spacing(np.abs(np.asarray(float(worst.expected), dtype))))
    ulp = ulp if np.isfinite(ulp) else 0.0
    return float(worst.lo) - ulp, float(worst.hi) + ulp


def exit_codes(outcome: Outcome | None, kind: OutcomeKind) -> str:
    """The exit codes of repro.py, in a sentence."""
    others = "0 once it is fixed, 125 where it cannot run or fails otherwise"
    if kind is OutcomeKind.CRASH and outcome and outcome.signal:
        return f"Exit code {others}; while it reproduces, {outcome.signal} ends it."
    return f"Exit code 1 while it reproduces, {others}."


def _costs(kind: OutcomeKind, outcome: Outcome | None) -> str:
    """The source of the functions by which a script measures time or memory; "" if the failure is
    neither SLOW nor LEAK.
    """
    if kind not in COSTS:
        return ""
    own = [costs.times_the_cpu] if kind is OutcomeKind.SLOW else [costs.used_bytes, costs.growth]
    if outcome and outcome.rival == DType.FLOAT32.value:
        own += [costs.in_float32, costs.floats32]
    return "\n\n".join(map(inspect.getsource, (costs.cpu_seconds, costs.cpu_of, *own)))


def _lacking(outcome: Outcome | None) -> list[str]:
    """Errors of a compiler that is absent or too old, unless the finding is one of them."""
    name = outcome.error_type.rpartition(".")[2] if outcome else ""
    name = "ImportError" if name == "ModuleNotFoundError" else name
    return [
        error for error in ("ImportError", "AttributeError", "FileNotFoundError") if error != name
    ]


def _expected(finding: Finding, wrong: WrongOutput | None) -> np.ndarray | None:
    """An array of the right type: the expected output, or else the target's."""
    if wrong is None:
        return None
    outcome = failing_outcome(finding)
    returned = (outcome.outputs or {}) if outcome else {}
    return finding.case.expected.get(wrong.output, returned.get(wrong.output))


def _worst(finding: Finding, wrong: WrongOutput | None) -> dict[str, object] | None:
    """Python expressions for the expected value and its bounds. exact: whether they are one.
    signed: whether a zero was wrong by its sign alone. nan: whether NaN is expected.
    """
    if wrong is None or wrong.worst is None:
        return None
    expected = _expected(finding, wrong)
    dtype = expected.dtype if expected is not None else np.dtype(np.float64)
    low, high = accepted_bounds(wrong.worst, dtype)
    value = wrong.worst.expected
    value = float(value) if DType.of(dtype).is_float else value
    nan = value != value
    exact = low == high == value or nan
    signed = not exact and value == wrong.worst.actual == 0
    values = {"expected": _number(value), "low": _number(low), "high": _number(high)}
    return {**values, "exact": exact, "signed": signed, "nan": nan}


def _number(value: Any) -> str:
    """inf and nan have no literal."""
    finite = not isinstance(value, float) or np.isfinite(value)
    return text.Quoted(repr(value) if finite else f"float({str(value)!r})")


def _spec_json(finding: Finding) -> dict[str, object]:
    return as_json(finding.backend) if finding.backend else {}


def _needs(finding: Finding, alone: bool, plugins: PluginFiles | None) -> str:
    """The requirements of the script, in a clause. alone: whether it holds the model. plugins:
    those that it runs, in nnfuzz; None if it runs the compiler itself.
    """
    names = [f"{name} {version}" for name, version in finding.versions.items()]
    names += [finding.failure.backend] if not names and plugins is None else []
    needed = ("torch" if takes_module(finding) else "onnx", "numpy")
    names += [name for name in needed if name not in finding.versions]
    if plugins is not None:
        names += ["nnfuzz", *(f"the module {name} on PYTHONPATH" for name in plugins.modules)]
    installed = ", ".join(dict.fromkeys(names))
    files = ", ".join(plugins.files) if plugins else ""
    beside = f"beside it {files}" if files else "no other file"
    return f"{installed}; {beside if alone else 'the other files of its folder'}"


def _expectation(finding: Finding, outcome: Outcome | None) -> str:
    """The line that the script prints before it tries."""
    failure = finding.failure
    if failure.kind is OutcomeKind.TIMEOUT:
        what = "does not end within a minute"
    elif outcome is None:
        what = "fails"
    elif failure.kind is OutcomeKind.CRASH:
        what = f"the process is {outcome.message}" if outcome.signal else outcome.message
    else:
        message = text.trimmed(outcome.message, 600)
        what = f"{outcome.error_type}: {message}" if outcome.error_type else f"it {message}"
    expected = "the model compiles and runs"
    if fault := finding.case.fault:
        expected = f"an error that says what is wrong with the model: {fault}"
        if failure.kind is OutcomeKind.ACCEPTED:
            what = "it is accepted"
    return (
        f"Expected: {expected}. "
        f"Seen at {', '.join(failure.levels)}, stage {failure.stage}: {visible(what)}"
    )


MAX_ELEMENTS = 64
"""The most elements of all inputs that are written out."""
MAX_CHARACTERS = 4000
"""The longest text of a model that is written out."""
_NAMED = re.compile("inf|nan")
"""Values without a literal in Python."""


def inline_model(model: bytes) -> str:
    """The model in ONNX's textual form if it is short and parses back to the same, else "".

    A model of others may hold names that are no UTF-8, or weights of other sizes than declared: it
    has no such form.
    """
    import onnx.shape_inference
    from onnx import parser, printer

    proto = onnx.load_model_from_string(model)
    try:
        text = printer.to_text(proto)
    except (UnicodeDecodeError, onnx.shape_inference.InferenceError):
        return ""
    if len(text) > MAX_CHARACTERS or '"""' in text or visible(text) != text or "\\" in text:
        return ""
    try:
        same = _canonical(parser.parse_model(text)) == _canonical(proto)
    except parser.ParseError:
        return ""
    return text if same else ""


def inline_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """A Python expression for arrays by name, exact to the bit; "" if they are too large.

    It needs `np`, and that ml_dtypes has been imported where `foreign` says so.
    """
    if sum(a.size for a in arrays.values()) > MAX_ELEMENTS:
        return ""
    rows = [f"    {name!r}: {_written(a)}{_reshaped(a)},\n" for name, a in arrays.items()]
    return "{\n" + "".join(rows) + "}"


def foreign(case: TestCase) -> bool:
    """Whether inputs or results have dtypes that NumPy knows through ml_dtypes only."""
    return any(is_foreign(a) for a in (*case.inputs.values(), *case.expected.values()))


def is_foreign(a: np.ndarray) -> bool:
    return not DType.of(a.dtype).native


def _written(a: np.ndarray) -> str:
    """The array by its numbers; by its bits where it has a NaN that is not NumPy's own."""
    with np.errstate(invalid="ignore"):
        plain = np.array(a.astype(np.float64) if is_foreign(a) else a)
    if plain.dtype.kind == "f":
        plain[np.isnan(plain)] = np.nan
    listed, dtype = plain.tolist() if a.size else [], str(a.dtype)
    if np.array(listed, a.dtype).tobytes() == a.tobytes():
        numbers = _NAMED.sub(r"np.\g<0>", repr(listed))
        return f"np.array({numbers}, {dtype!r})"
    bits = f"uint{8 * a.itemsize}"
    return f"np.array({a.view(bits).tolist()!r}, {bits!r}).view({dtype!r})"


def _reshaped(a: np.ndarray) -> str:
    return "" if a.size else f".reshape({a.shape})"


def _canonical(model: ModelProto) -> bytes:
    """The model's bytes with all tensors in one form and without redundant parts."""
    from onnx import ModelProto

    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ClearField("doc_string")
    for opset in copy.opset_import:
        _without_empty(opset)
    for graph in graphs(copy.graph):
        for node in graph.node:
            _without_empty(node)
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    _plain(attribute.t)
        for tensor in graph.initializer:
            _plain(tensor)
    return copy.SerializeToString(deterministic=True)


def _plain(tensor: TensorProto) -> None:
    from onnx import numpy_helper

    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    _without_empty(tensor)


def _without_empty(proto: Message) -> None:
    for field, value in proto.ListFields():
        if value == "":
            proto.ClearField(field.name)
