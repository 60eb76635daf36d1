"""The cheap measure: whether nnfuzz could make the model of an entry, and would see its bug.

No campaign runs. A model is in the vocabulary if the import reads every node of it as an operator
that generation uses, and it is judged if nnfuzz, given the model and its inputs, finds the release
wrong. A bug that is not in the vocabulary, or not judged, no campaign can find.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
import onnx

import nnfuzz
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.target import Target
from nnfuzz.library.plugins import operator_registry
from nnfuzz.materialize.importing import import_onnx, opaque_nodes
from nnfuzz.operators.registry import OpRegistry
from scripts.recall.entries import Entry
from scripts.recall.program import arrays


class Reach(StrEnum):
    """How much of an entry's model generation could make.

    UNREAD: the import takes none of it, or not all nodes. OPAQUE: an operator has no spec in this
    use. EDGES: it takes inputs that only `edges` draws. WHOLE: all of it.
    """

    UNREAD = "not read"
    OPAQUE = "no spec"
    EDGES = "edges"
    WHOLE = "whole"


@dataclass(frozen=True)
class Reached:
    """reach: of the model. why: the operators or inputs that are missing."""

    reach: Reach
    why: str = ""


def reached(entry: Entry) -> Reached:
    """Whether generation's vocabulary has the entry's model."""
    try:
        found = import_onnx(entry.model, _registry(), entry.opset, given(entry))
    except Exception as error:  # whatever the import cannot take is the result
        return Reached(Reach.UNREAD, f"{type(error).__name__}: {str(error).splitlines()[0]}")
    if found.lost:
        return Reached(Reach.UNREAD, ", ".join(f"{op}: {why}" for op, why in found.lost))
    if opaque := opaque_nodes(found.graph):
        return Reached(Reach.OPAQUE, ", ".join(sorted(set(opaque))))
    if unusual := [name for name, array in given(entry).items() if not _usual(array)]:
        return Reached(Reach.EDGES, ", ".join(unusual))
    return Reached(Reach.WHOLE)


REFUSED = "refused: "
"""Begins what a release says that lacks what the model needs: no bug, in nnfuzz's eyes."""


def judged(entry: Entry, target: Target) -> str:
    """What nnfuzz says of the entry's own model and inputs on a release.

    "" if nothing is wrong, and the compiler's words behind REFUSED if it does not implement them.
    """
    given_inputs = {k: v for k, v in given(entry).items() if k in _free(entry.model)}
    try:
        check = nnfuzz.check_model(
            entry.model, [target], inputs=given_inputs, values=False, localise=False
        )
    except Exception as error:  # an entry that cannot be checked is not counted
        return f"not checked: {type(error).__name__}: {str(error).splitlines()[0]}"
    if check.failed:
        return check.summary()
    refusals = [o.message for o in check.result.outcomes if o.kind is OutcomeKind.UNSUPPORTED]
    return f"{REFUSED}{refusals[0].splitlines()[0]}" if refusals else ""


def given(entry: Entry) -> Mapping[str, np.ndarray]:
    """The entry's inputs by name, those included that are drawn."""
    return arrays(entry.model.graph.input, dict(entry.inputs or {}))


def _free(model: onnx.ModelProto) -> set[str]:
    return {v.name for v in model.graph.input} - {t.name for t in model.graph.initializer}


def _usual(array: np.ndarray) -> bool:
    """Whether an array is not empty and has no NaN, no infinity and no division by zero."""
    with contextlib.suppress(TypeError):
        return array.size > 0 and bool(np.isfinite(array).all())
    return math.prod(array.shape) > 0


@cache
def _registry() -> OpRegistry:
    return operator_registry(())
