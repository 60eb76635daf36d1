"""Outputs that only a compiler can compute: targets are compared with each other alone.

No reference bounds the rounding errors there, so the targets themselves do: they run again on
inputs that differ by a few units in the last place. A difference between targets is nobody's fault
if an output changes by as much on such inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.outcome import Outcome
from nnfuzz.backend.target import DIRECT, Target
from nnfuzz.compare.mismatch import Loss, Verdict
from nnfuzz.ir.dtypes import is_floating
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.testcase.case import ModelError, TestCase
from nnfuzz.testcase.identity import ForeignId

if TYPE_CHECKING:
    import onnx

Arrays = Mapping[str, np.ndarray]
RUNS = 4
"""On other inputs, beside the first run."""
SHAKEN = 8
"""Units in the last place by which inputs differ at most."""


def unreferenced_case(model: onnx.ModelProto, inputs: Arrays | None, seed: int) -> TestCase:
    """The test case of a model whose outputs have no reference: it has no graph and no expected
    outputs. inputs: by default floats are normal, integers 0 or 1, and open dimensions 1.

    Raises: ModelError for inputs that do not fit the model.
    """
    from nnfuzz.backend.interface import InputError, check_inputs, read_interface

    data, rng = model.SerializeToString(), np.random.default_rng(seed)
    try:
        declared, _ = read_interface(data)
        if inputs is not None:
            check_inputs(declared, inputs)
    except InputError as error:
        raise ModelError(str(error)) from error
    if inputs is None:
        shapes = {n: [size or 1 for size in spec.shape] for n, spec in declared.items()}
        drawn = {
            name: rng.standard_normal(shapes[name])
            if is_floating(np.zeros(0, spec.dtype))
            else rng.integers(0, 2, shapes[name])
            for name, spec in declared.items()
        }
        inputs = {name: array.astype(declared[name].dtype) for name, array in drawn.items()}
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    opset = versions[0] if versions else 1
    return TestCase(ForeignId(seed), NO_GRAPH, data, dict(inputs), {}, {}, DIRECT, opset)


def votes(
    outcomes: Sequence[Outcome],
    again: Callable[[Arrays], Sequence[Outcome]],
    inputs: Arrays,
    names: Collection[str],
    seed: int,
) -> Verdict:
    """How targets differ in the outputs of these names, which have no comparable element.

    again: runs the targets on other inputs.
    """
    from nnfuzz.compare.votes import unreferenced

    first = _outputs(outcomes, names)
    spread = {name: 0.0 for name in names}
    rng = np.random.default_rng(seed)
    for _ in range(RUNS if unreferenced(first, spread) else 0):
        for target, arrays in _outputs(again(_shaken(inputs, rng)), names).items():
            for name, array in arrays.items():
                if (before := first.get(target, {}).get(name)) is not None:
                    spread[name] = max(spread[name], _distance(before, array))
    why = "no reference implementation of what computes it is known to nnfuzz"
    return Verdict(
        mismatches={target: () for target in first},
        comparable=dict.fromkeys(names, 0.0),
        losses={name: (Loss("", name, why),) for name in names},
        disputes=unreferenced(first, spread),
    )


def _outputs(outcomes: Sequence[Outcome], names: Collection[str]) -> dict[Target, Arrays]:
    ran = {o.target: o.outputs for o in outcomes if o.outputs is not None}
    return {t: {n: a for n, a in own.items() if n in names} for t, own in ran.items()}


def _shaken(inputs: Arrays, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs with each float moved by a few units in the last place."""
    moved = {}
    for name, array in inputs.items():
        moved[name] = array
        if is_floating(array):
            wide = array.astype(np.float64)
            unit = np.abs(np.spacing(array).astype(np.float64))
            moved[name] = (wide + rng.integers(-SHAKEN, SHAKEN + 1, array.shape) * unit).astype(
                array.dtype
            )
    return moved


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """How far two results lie from each other; infinite where only one of two is a number, or where
    something discrete changes.
    """
    if one.shape != other.shape or not is_floating(one):
        return 0.0 if np.array_equal(one, other) else float("inf")
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        away = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.nan_to_num(away, nan=np.inf, posinf=np.inf).max(initial=0.0))
