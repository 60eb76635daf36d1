"""The numbers of a finding as text: inputs, outputs, their accuracy, and what the standard says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nnfuzz.base.packed_values import evaluated
from nnfuzz.compare.flip import PYTORCH
from nnfuzz.ir.dtypes import DType, plain
from nnfuzz.records.finding import Finding
from nnfuzz.triage.headline import attributes_that_matter
from nnfuzz.triage.mismatch import WrongOutput

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
            output = evaluated(case.model, case.inputs)[wrong.output]
            return str(np.asarray(output)[tuple(wrong.worst.index)])
    except Exception:  # it is Python written operator by operator, and may raise anything
        return ""
