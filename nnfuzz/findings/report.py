"""report.md with the numbers of a finding, and a finding as an issue in its tracker's form."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nnfuzz.backend.contract import IssueForm
from nnfuzz.backend.outcome import COSTS, Outcome, OutcomeKind
from nnfuzz.backend.target import CPU, WAYS, Pipeline
from nnfuzz.base.packed_values import evaluated
from nnfuzz.base.reading import JsonObject
from nnfuzz.base.untrusted import blaming
from nnfuzz.compare.flip import PYTORCH
from nnfuzz.findings import text
from nnfuzz.findings.repro import (
    exit_codes,
    failing_outcome,
    inlined,
    module_text,
    output_of_finding,
    takes_module,
)
from nnfuzz.findings.text import environment
from nnfuzz.ir.dtypes import DType, plain
from nnfuzz.ir.sizes import from_copies
from nnfuzz.materialize.opsets import is_called
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.experiments import healed
from nnfuzz.testcase.identity import ForeignId
from nnfuzz.triage.headline import attributes_that_matter
from nnfuzz.triage.mismatch import WrongOutput, wrong_outputs
from nnfuzz.triage.signature import FAILURES
from nnfuzz.vary.rewrite.rewriting import named, parse_form

MAX_MODEL_TEXT = 6000
"""Characters: a report leaves out the text of a model that is longer."""
MAX_DETAIL = 300
"""Characters of an error in the table of levels; the rest is cut off."""
_MANY = 64
"""Elements: the text of a model leaves out the values of an initializer that has more."""


def tracker_report(finding: Finding) -> str:
    """The Markdown text of report.md. Raises: Unusable for a model that cannot be read and is not
    valid.
    """
    with blaming(finding.case.model, "the model"):
        return _rendered(finding)


def _rendered(finding: Finding) -> str:
    failure, case = finding.failure, finding.case
    outcome = failing_outcome(finding)
    failed = outcome is not None and outcome.kind in FAILURES
    wrong = output_of_finding(finding)
    last = case.graph.operators[-1] if case.graph else ""
    healing = healed(finding.diagnosis.heals, last)
    return (
        environment()
        .get_template("report.md.jinja")
        .render(
            title=finding.failure.signature.title,
            symptom=text.Quoted(symptom(finding, outcome)),
            severity=finding.severity.value,
            values=_values(finding),
            calls=text.Quoted(_calls(finding)),
            accuracy=accuracy_rows(finding, wrong) if wrong else [],
            clauses=clauses(finding),
            reference=reference_value(finding, wrong) if wrong and not case.fault else "",
            waived=wrong and finding.verdict and finding.verdict.waived.get(wrong.output),
            arrays=whole_arrays(finding),
            bisections=finding.origin.bisection,
            explanations=list(map(str, finding.diagnosis.explanations)),
            healed=str(healing or ""),
            levels=_levels(finding),
            localisation=finding.localisation,
            ablation=_ablation(finding),
            nodes=finding.origin.reduction and finding.origin.reduction.nodes,
            versions={**finding.versions, **platform_versions(), **finding.versions},
            compiler=failure.compiler,
            right_in=finding.origin.right_in,
            has_model=bool(case.model),
            alone=bool(case.model) and inlined(finding) is not None,
            exit_codes=exit_codes(outcome, failure.kind),
            model_text=_model_text(finding),
            rewrites=_rewrites(finding),
            plain_text=model_text(case.plain) if case.plain else "",
            error=_error(outcome) if failed else "",
            captured=outcome.captured if outcome and failed else "",
            hash=failure.signature.hash,
            test=case.id,
            own=isinstance(case.id, ForeignId),
            exporter=case.exporter,
            opset=case.opset,
        )
    )


def _rewrites(finding: Finding) -> list[dict[str, str]]:
    """The steps by which the model was rewritten, and why each keeps the meaning."""
    if not finding.case.plain or takes_module(finding):
        return []
    _, steps = parse_form(finding.case.exporter)
    return [{"step": str(s), "obligation": named(s.rule).obligation} for s in steps]


def _levels(finding: Finding) -> list[dict[str, str]]:
    """Rows of the table of levels; none if the model ran at one level only."""
    rows = [level_row(finding, outcome) for outcome in finding.outcomes]
    return rows if len(rows) > 1 else []


def _model_text(finding: Finding) -> str:
    """The class of a PyTorch module without the code that converts arrays, or the ONNX model."""
    if module := module_text(finding):
        return module.partition("\n\n\n")[0]
    if finding.case.fault:
        return invalid_text(finding.case.model)
    return model_text(finding.case.model) if finding.case.model else ""


def model_text(model: bytes) -> str:
    """A model in ONNX's textual form, without the values of large weights; "" if it is long."""
    import onnx
    from onnx import helper, printer

    proto = onnx.load_model_from_string(model)
    graph, note = proto.graph, ""
    large = [t for t in graph.initializer if math.prod(t.dims) > _MANY]
    for tensor in large:
        graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
        graph.initializer.remove(tensor)
    if large:
        names = ", ".join(tensor.name for tensor in large)
        note = f"# Shown as inputs, with their values in model.onnx: {names}\n"
    printed = note + printer.to_text(proto)
    return text.impersonal(printed) if len(printed) <= MAX_MODEL_TEXT else ""


def invalid_text(model: bytes) -> str:
    """The protobuf text of an invalid model; "" if it cannot be parsed or is long.

    Unlike `model_text`, this does not interpret the model, which may be invalid in any way.
    """
    import onnx
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    try:
        printed = text_format.MessageToString(onnx.ModelProto.FromString(model))
    except (DecodeError, UnicodeDecodeError):
        return ""
    return text.impersonal(printed) if len(printed) <= MAX_MODEL_TEXT else ""


@cache
def platform_versions() -> dict[str, str]:
    """Python, the operating system, the processor, onnx and NumPy, as far as they are known."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"Python": platform.python_version(), "platform": platform.platform()}
    for package in ("onnx", "numpy", "torch", "nnfuzz"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    processor = _processor()
    return versions | ({"processor": processor} if processor else {})


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def symptom(finding: Finding, outcome: Outcome | None) -> str:
    """One sentence on the fault, in Markdown."""
    failure, wrong = finding.failure, output_of_finding(finding)
    where: str = text.inline(failure.backend)
    if len({o.level for o in finding.outcomes if o.backend == failure.backend}) > 1:
        where += f" at {text.inline(', '.join(failure.levels))}"
    if not finding.case.model:
        return f"The exporter {text.inline(failure.backend)} fails on a valid PyTorch module."
    if wrong is not None:
        return f"{where} returns {_returned(wrong)} for output {text.code(wrong.output)}."
    if finding.case.fault is not None:
        return _invalid_symptom(finding, outcome, where)
    if failure.kind is OutcomeKind.TIMEOUT:
        return f"{where} does not finish the stage *{failure.stage}* of a small model."
    if failure.kind in COSTS and outcome is not None:
        return f"{where} {outcome.message}."
    if failure.kind is OutcomeKind.CRASH and outcome is not None:
        return f"{where}: the process is {text.inline(outcome.message)} in stage *{failure.stage}*."
    error = text.code(outcome.error_type) if outcome is not None else "an error"
    what = "module that PyTorch runs" if takes_module(finding) else "model that is valid ONNX"
    return f"{where} raises {error} in stage *{failure.stage}* on a {what}."


def _invalid_symptom(finding: Finding, outcome: Outcome | None, where: str) -> str:
    """The symptom of a finding whose model must be refused, with the clause that it violates."""
    failure, fault = finding.failure, finding.case.fault
    assert fault is not None
    reaction = {
        OutcomeKind.ACCEPTED: "accepts an invalid model",
        OutcomeKind.TIMEOUT: f"does not finish the stage *{failure.stage}* of an invalid model",
        OutcomeKind.CRASH: "dies of an invalid model",
    }.get(failure.kind, "answers an invalid model with an error from its inside")
    if outcome is not None and failure.kind is OutcomeKind.CRASH:
        reaction += f" in stage *{failure.stage}* ({text.inline(outcome.message)})"
    elif outcome is not None and outcome.error_type:
        reaction += f": {text.code(outcome.error_type)} in stage *{failure.stage}*"
    beside = " `plain.onnx` is the model without the fault." if finding.case.plain else ""
    return (
        f"{where} {reaction}, where an error that names the fault is due. What is wrong with the "
        f"model: {text.inline(fault.what)}. Clause: {text.inline(fault.clause)}.{beside}"
    )


def _calls(finding: Finding) -> str:
    """Explains the calls of a model that is called several times; "" for others."""
    case = finding.case
    if not is_called(case.exporter):
        return ""
    runs = case.fed
    names = [n for n in runs[0] if len({part[n].shape for part in runs}) > 1]
    shapes = (", ".join(text.code(f"{n}{list(p[n].shape)}") for n in names) for p in runs)
    model = "has a symbolic dimension and " if names else ""
    sizes = f" with these sizes: {'; '.join(shapes)}" if names else ""
    sentences = (
        f"The model {model}is compiled once and called {len(runs)} times, one call after the "
        f"other{sizes}. Names that end in `_atK` belong to call K, counted from 0."
    )
    ways = {Pipeline.parse(outcome.level).way for outcome in finding.outcomes} - {""}
    sentences += "".join(f" With {text.code(way)}, {WAYS[way]}." for way in sorted(ways))
    if finding.verdict and finding.verdict.calls:
        sentences += " Called once with the inputs of the wrong call, the program is right."
    elif names and finding.origin.reduction:
        sentences += " With static shapes the same graph did not fail in this way."
    return sentences


def _returned(wrong: WrongOutput) -> str:
    if wrong.kind in ("shape", "dtype"):
        return f"the {wrong.kind} {text.code(wrong.actual)} instead of {text.code(wrong.expected)}"
    if wrong.kind == "missing":
        return "nothing"
    return "non-finite values" if wrong.kind == "nonfinite" else "wrong values"


def _values(finding: Finding) -> list[JsonObject]:
    """A row for every wrong output at the first failing level."""
    failure = finding.failure
    if failure.kind is not OutcomeKind.MISMATCH:
        return []
    rows = []
    for wrong in wrong_outputs(finding.verdict):
        if wrong.target == failure.targets[0]:
            worst = wrong.worst
            interval = f"[{worst.lo}, {worst.hi}]" if worst else ""
            rows.append(
                {
                    "output": wrong.output,
                    "element": list(worst.index) if worst else "",
                    "actual": worst.actual if worst else wrong.actual or "none",
                    "expected": worst.expected if worst else wrong.expected,
                    "accepted": interval,
                    "wrong": f"{wrong.wrong} ({wrong.share:.0%})" if worst else "",
                }
            )
    return rows


def level_row(finding: Finding, outcome: Outcome) -> dict[str, str]:
    """A row of the table of levels."""
    wrong = [w for w in wrong_outputs(finding.verdict) if w.target == outcome.target]
    row = {"backend": outcome.backend, "level": outcome.level, "stage": outcome.stage.value}
    if wrong:
        worst = wrong[0].worst
        detail = f"{wrong[0].output}: {wrong[0].kind}"
        if worst:
            detail += f", {worst.actual} for {worst.expected}"
        return row | {"outcome": "mismatch", "stage": "compare", "detail": detail}
    message = outcome.message.strip().partition("\n")[0]
    error = outcome.error_type.rpartition(".")[2]
    detail = outcome.signal or ": ".join(part for part in (error, message) if part)
    return row | {"outcome": outcome.kind.value, "detail": text.trimmed(detail, MAX_DETAIL)}


def _ablation(finding: Finding) -> list[dict[str, str]]:
    """Rows of the ablation table: each choice that changed the outcome, then one for the others."""
    rows = (finding.localisation or {}).get("ablation") or ()
    changed = [row for row in rows if row["answer"] != "fails"]
    table = [{"without": ", ".join(r["without"]), "answer": r["answer"]} for r in changed[:20]]
    unchanged = [row for row in rows if row["answer"] == "fails"]
    if unchanged:
        names = list(dict.fromkeys(name for row in unchanged for name in row["without"]))
        listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        tried = f"{len(unchanged)} other choices ({listed})"
        table.append({"without": tried, "answer": "fails"})
    return table


def _error(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    if outcome.traceback:
        return outcome.traceback
    return ": ".join(part for part in (outcome.error_type, outcome.message) if part)


MAX_BODY = 65_000
"""Characters: GitHub takes 65,536."""
MAX_SCRIPT = 30_000
"""Characters of the stand-alone script; a larger one is attached by hand."""
WORDS = 4
"""Words of a search: more of them find nothing."""
NO_ANSWER = "_No response_"


@dataclass(frozen=True)
class Issue:
    """search: words by which the same failure would be found. attachments: files to be added by
    hand.
    """

    repository: str
    title: str
    body: str
    search: str
    attachments: tuple[str, ...] = ()


def issue(finding: Finding, form: IssueForm, script: str, releases: str = "") -> Issue:
    """The issue for a finding.

    script: its repro.py, "" if there is none. releases: a sentence on those that have the bug.
    """
    parts = _parts(finding, script)
    if releases:
        parts["symptom"] += f"\n\n{text.inline(releases)}"
    sections = (
        f"### {heading}\n\n{content.format(**parts).strip() or NO_ANSWER}"
        for heading, content in form.sections
    )
    title = finding.signature.title.removeprefix(f"{finding.failure.backend}: ")
    attached = ("repro.py",) if len(script) > MAX_SCRIPT else ()
    body = text.trimmed("\n\n".join(sections) + "\n", MAX_BODY)
    return Issue(form.repository, f"{form.prefix}{title}", body, search_words(finding), attached)


def _parts(finding: Finding, script: str) -> dict[str, str]:
    outcome = failing_outcome(finding)
    stated = {**finding.versions, **platform_versions()}
    versions = {str(text.inline(n)): str(text.inline(v)) for n, v in stated.items()}
    named = ("platform", "processor")
    error = ""
    if outcome is not None and finding.failure.kind is not OutcomeKind.MISMATCH:
        reason = outcome.traceback or outcome.message
        error = text.fenced("\n".join(t for t in (reason, outcome.captured) if t))
    return {
        "symptom": symptom(finding, outcome),
        "report": _below_headings(tracker_report(finding)),
        "repro": _script(script),
        "error": error,
        "versions": "\n".join(f"- {k} {v}" for k, v in versions.items() if k not in named),
        "platform": ", ".join(versions[n] for n in named if n in versions) or platform.platform(),
        "expected": _expected(finding),
        "device": (outcome.target.device if outcome else CPU).upper(),
        "machine": platform.machine(),
    }


def _expected(finding: Finding) -> str:
    if finding.failure.kind is OutcomeKind.MISMATCH:
        return "Outputs inside of the accepted interval, which the report below explains."
    return "The model is valid ONNX: it compiles and runs, or an error says what is not supported."


def _below_headings(report: str) -> str:
    """The report without its title, its headings below those of the form."""
    body = re.sub(r"\A# .*\n+", "", report)
    return re.sub(r"^(#+) ", r"##\1 ", body, flags=re.MULTILINE).strip()


def _script(script: str) -> str:
    if not script:
        return ""
    if len(script) > MAX_SCRIPT:
        return "See the attached repro.py, whose first lines say what it needs."
    return f"This script shows it; its first lines say what it needs:\n\n{_fence(script)}"


def _fence(script: str) -> str:
    return text.fenced(script, "python", MAX_SCRIPT + 1)


def search_words(finding: Finding) -> str:
    """Operators of the model, then words of the complaint or of the kind of failure."""
    outcome = failing_outcome(finding)
    complaint = outcome.complaint.subject if outcome and outcome.complaint else ""
    words = [*finding.case.graph.operators[:2], *re.findall(r"[A-Za-z_]{4,}", complaint)]
    distinct = dict.fromkeys(words or [finding.failure.kind.value])
    return " ".join(list(distinct)[:WORDS])


MOST_ELEMENTS = 200
"""Elements of all arrays up to which they are printed whole: about a screen of them."""


def whole_arrays(finding: Finding) -> str:
    """All inputs, weights and outputs of a small model, one after the other; "" of a large one.

    Outputs that are the same at several levels are printed once.
    """
    returned = (a for o in finding.outcomes for a in (o.outputs or {}).values())
    if any(array.size > MOST_ELEMENTS for array in returned):
        return ""
    listed = list(_listed(finding))
    if sum(array.size for _, array in listed) > MOST_ELEMENTS:
        return ""
    texts = [f"{title}: {a.dtype}{list(a.shape)}\n{_printed(a)}" for title, a in listed]
    return "\n".join(texts)


def _listed(finding: Finding) -> Iterator[tuple[str, np.ndarray]]:
    case = finding.case
    yield from ((f"input {name}", array) for name, array in case.inputs.items())
    yield from ((f"weight {name}", array) for name, array in case.weights.items())
    yield from ((f"expected {name} (PyTorch)", array) for name, array in case.expected.items())
    targets: dict[tuple[Any, ...], list[str]] = {}
    for outcome in finding.outcomes:
        for name, a in (outcome.outputs or {}).items():
            target = f"{outcome.backend} {outcome.level}".strip()
            targets.setdefault((name, str(a.dtype), a.shape, a.tobytes()), []).append(target)
    for (name, dtype, shape, data), who in targets.items():
        array = np.frombuffer(data, DType(dtype).numpy if _known(dtype) else dtype)
        yield f"actual {name} ({', '.join(who)})", array.reshape(shape)


def _known(dtype: str) -> bool:
    return dtype in {d.value for d in DType}


def _printed(array: np.ndarray) -> str:
    """Every element, with the digits that distinguish it from its neighbours."""
    array = plain(array) if _known(str(array.dtype)) else array
    return np.array2string(array, max_line_width=100, threshold=array.size + 1, floatmode="unique")


def accuracy_rows(finding: Finding, wrong: WrongOutput) -> list[dict[str, str]]:
    """Rows of a table: the reference, PyTorch in the model's dtype, and every target that ran,
    with their distance from the reference. Empty if the verdict has no figures of it.
    """
    every = finding.verdict.accuracy if finding.verdict else {}
    accuracy = every.get(wrong.target, {}).get(wrong.output)
    if accuracy is None:
        return []
    dtype = str(finding.case.expected[wrong.output].dtype)
    names = {PYTORCH: f"PyTorch ({dtype})"}
    rows = [
        {
            "who": names.get(who, f"{who.compiler} {who.level}".strip()),
            "value": str(row.value),
            "distance": _short(row.distance),
            "ulp": _short(row.ulp),
        }
        for who, row in accuracy.rows.items()
        if who == PYTORCH or who.form == wrong.target.form
    ]
    exact = "reference (float64)" if DType(dtype).is_float else "reference (exact)"
    first = {"who": exact, "value": str(accuracy.reference), "distance": "", "ulp": ""}
    return [first, *rows]


def _short(number: Any) -> str:
    if number is None or isinstance(number, str):
        return number or ""
    return str(number) if isinstance(number, int) else f"{number:.3g}"


MOST_CLAUSES = 4
"""Operators up to which a report says where the standard describes each."""


def clauses(finding: Finding) -> list[str]:
    """Where the standard describes the operators of a model: "ONNX Resize-19, attributes mode".

    The version is that of the schema in force at the model's opset. Empty for a model of more than
    MOST_CLAUSES operators, or one that must be refused.
    """
    import onnx
    from onnx import defs

    if finding.case.fault or not finding.case.model:
        return []
    model = onnx.load_model_from_string(finding.case.model)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    references = []
    for node in nodes if len(nodes) <= MOST_CLAUSES else ():
        opset = opsets.get(node.domain, 1)
        try:
            schema = defs.get_schema(node.op_type, opset, node.domain)
        except defs.SchemaError:
            continue
        names = [text.partition("=")[0] for text in attributes_that_matter(node, opset)]
        attributes = f", attribute{'s' * (len(names) > 1)} {', '.join(names)}" if names else ""
        references.append(f"ONNX {node.op_type}-{schema.since_version}{attributes}")
    return list(dict.fromkeys(references))


def reference_value(finding: Finding, wrong: WrongOutput) -> str:
    """The value of onnx.reference for the worst element of a small model, as text; "" if it cannot
    run the model, returns another shape, or the model is large.
    """
    case = finding.case
    arrays = [*case.inputs.values(), *case.weights.values(), *case.expected.values()]
    if not wrong.worst or sum(a.size for a in arrays) > MOST_ELEMENTS:
        return ""
    try:
        with np.errstate(all="ignore"):
            outputs = from_copies(evaluated(case.model, inputs) for inputs in case.fed)
            return str(np.asarray(outputs[wrong.output])[tuple(wrong.worst.index)])
    except Exception:  # it is Python written operator by operator, and may raise anything
        return ""
