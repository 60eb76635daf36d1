"""The numbers of a finding as text: inputs, expected and actual outputs, and their accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nnfuzz.compare.flip import PYTORCH
from nnfuzz.ir.dtypes import DType, plain
from nnfuzz.records.finding import Finding
from nnfuzz.triage.mismatch import WrongOutput

MOST_ELEMENTS = 200
"""Elements of all arrays up to which they are printed whole: about a screen of them."""

DEFAULT_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}
"""rtol and atol of torch.testing.assert_close by dtype, as its documentation has them."""


def operand_rows(finding: Finding, wrong: WrongOutput) -> list[str]:
    """The elements of inputs and weights at the place of the worst element, "x[1, 2] = 0.5".

    Empty unless the model is a single operator and broadcasting takes all of them to its output.
    """
    nodes = finding.case.graph.nodes
    expected = finding.case.expected.get(wrong.output)
    if len(nodes) != 1 or not wrong.worst or expected is None:
        return []
    arrays, index = {**finding.case.inputs, **finding.case.weights}, wrong.worst.index
    places = {name: _place(a.shape, expected.shape, index) for name, a in arrays.items()}
    if None in places.values():
        return []
    return [
        f"{name}{list(at or ())} = {plain(arrays[name])[at].item()!r}"
        for name, at in places.items()
    ]


def _place(
    shape: Sequence[int], whole: Sequence[int], index: Sequence[int]
) -> tuple[Any, ...] | None:
    """The index in an operand of a shape; None if broadcasting does not take it to the whole."""
    pairs = list(zip(reversed(shape), reversed(whole), reversed(index)))
    if len(pairs) < len(shape) or any(n not in (1, size) for n, size, _ in pairs):
        return None
    return tuple(0 if n == 1 else at for n, _, at in reversed(pairs))


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


def assert_close(finding: Finding, wrong: WrongOutput) -> str:
    """The result of torch.testing.assert_close for the worst element beside PyTorch's own result,
    in a sentence; "" if the verdict has no figures of it.
    """
    every = finding.verdict.accuracy if finding.verdict else {}
    accuracy = every.get(wrong.target, {}).get(wrong.output)
    rows = accuracy.rows if accuracy else {}
    values = [rows[who].value for who in (wrong.target, PYTORCH) if who in rows]
    if len(values) < 2:
        return ""
    actual, eager = map(float, values)
    dtype = str(finding.case.expected[wrong.output].dtype)
    rtol, atol = DEFAULT_TOLERANCES.get(dtype, (0.0, 0.0))
    same = actual == eager or (math.isnan(actual) and math.isnan(eager))
    close = same or abs(actual - eager) <= atol + rtol * abs(eager) < math.inf
    return (
        f"At the default tolerances of torch.testing.assert_close for {dtype} (rtol={rtol:g}, "
        f"atol={atol:g}) the compiled module is {'close to' if close else 'different from'} the "
        "module as PyTorch runs it."
    )


def _short(number: Any) -> str:
    if number is None or isinstance(number, str):
        return number or ""
    return str(number) if isinstance(number, int) else f"{number:.3g}"
