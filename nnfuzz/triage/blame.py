"""Whose fault an error of a reduced model is, as far as its message and graph tell.

What a compiler says is about where it noticed. The operator that is named there may only have got
what another one made wrong, and one check of a compiler fails for many operators. The parts below
are the same wherever one change of the compiler would mend the failures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.target import rules_of
from nnfuzz.ir.view import GraphView
from nnfuzz.triage.headline import is_native
from nnfuzz.triage.pattern import (
    as_written,
    before_last,
    between,
    from_last_location,
    general_message,
    sources,
    without_calls,
    without_intrinsics,
)
from nnfuzz.triage.signature import Failure

RESULT = "result"
"""The part that says what is wrong with the results of an operator: "dtype", "shape", "type" (one
of the two) or "use" (what comes behind cannot be translated)."""
NO_TYPES: Mapping[str, str] = MappingProxyType({})
_INPUTS = ("dtype", "shape", "type")
_VAGUE = re.compile(r"(?<!<)\boperator\b")
"""Speaks of an operator without saying which."""
_SHAPE = re.compile(r"shape|rank|ndim|dimension", re.IGNORECASE)
_ERROR = ("kind", "stage", "error", "message", "about", "at", "location", "frames")


def blamed(
    failure: Failure,
    graph: GraphView,
    operator: str = "",
    branches: bool = False,
    types: Mapping[str, str] = NO_TYPES,
) -> dict[str, object]:
    """Parts that replace those of an error with a message; None: not part of it.

    operator: the only one of the ONNX model, "" if there are several. branches: whether an
    exporter added an If. types: the operator of ONNX that computes a value, where it is known; what
    is blamed for its result is called so.

    The first rule that applies counts. Those come first that tell who made what is wrong (1, 2), or
    where in the compiler (3), which they do with and without a rewrite; then the rewrite (4); then
    what a message suggests that only tells where something was noticed:

    1. An If that an exporter added is to blame for whatever an importer or code generation says,
       complaints about dtypes or types aside: reduction would have had the model emitted without it
       if the failure did not need it, and branches may differ in rank, but not in dtype.
    2. A complaint about the type, dtype or shape of an input is about whoever made the input. Where
       inference fails at an operator, that is what feeds it and is itself fed, else the operator,
       which cannot cope with what is known of its input. Two dtypes that a single operator reads,
       where an importer wants one, are its own doing: it has converted neither.
    3. A native function that the message names is the cause, for whatever operator and rewrite.
    4. A reduced model that still needs a rewrite is known by its rules and the message: operators
       are only what the rules were applied to.
    5. While the model runs, an operator that the message names is the cause; if it names none, the
       message counts, and what is computed first.
    6. What an importer cannot take behind another operator is the other one's fault, whatever it
       says. So is what code generation says of shapes, or of an operator that it does not name. Of
       a single operator that is its own, whose pieces do not fit, unless a native frame tells more
       of shapes.
    7. Else the message counts, with the innermost native frame if there is one: whoever calls it,
       at import or later. Without one it counts with what is computed first, or the operator.
    """
    parts, several = failure.signature.parts, len(graph.nodes) > 1
    message, stage = parts["message"], failure.stage
    imported = stage is Stage.IMPORT
    own = operator or graph.nodes[0].op
    about = parts.get("about", "")
    if branches and about in ("", "shape") and stage is not Stage.EXECUTE:
        return dict.fromkeys(_ERROR) | {RESULT: "use", "of": ["If"]}
    written = as_written(graph, types)
    suspects = _suspects(about, parts.get("at", ()), written) if several else None
    if not several and imported and about == "dtype" and _unlike(message, graph):
        suspects = _result("dtype", [own])
    if suspects:
        return suspects
    if where := from_last_location(message):
        return dict.fromkeys(_ERROR) | {"message": where}
    general = _generalised(message, graph, stage, operator)
    if rules := rules_of(failure.targets[0].form):
        return _said(general) | {"rules": rules, "frames": None}
    behind = sources(written)
    named = [op for op in _operators(graph, operator) if re.search(rf"\b{op}\b", message)]
    if named and stage is Stage.EXECUTE:
        return _said(general) | {"operator": named[-1], "frames": None}
    if behind and stage is Stage.EXECUTE:
        return _said(general) | {"behind": behind}
    if behind and (stage is Stage.IMPORT or _SHAPE.search(general) or _VAGUE.search(general)):
        return dict.fromkeys(_ERROR) | {RESULT: "use", "of": behind}
    native = [frame for frame in parts.get("frames", ()) if is_native(frame)]
    unclear = _VAGUE.search(general) or (_SHAPE.search(general) and not native)
    if stage is Stage.COMPILE and not behind and unclear:
        # The same among the pieces that the operator is translated to.
        return dict.fromkeys(_ERROR) | {RESULT: "use", "of": [own]}
    if native and not _VAGUE.search(general):
        return _said(general) | {"stage": None, "error": None, "frames": native[-1:]}
    return _said(general) | ({"behind": behind} if behind else {"operator": own})


def _said(general: str) -> dict[str, object]:
    """The message in general words instead of what a complaint says of this model."""
    return {"message": general, "about": None, "at": None, "location": None}


def _unlike(message: str, graph: GraphView) -> bool:
    """Whether the message names several of the dtypes that are read in the model."""
    dtypes = graph.dtypes
    read = {dtypes[name] for node in graph.nodes for name in node.inputs}
    return sum(bool(re.search(rf"\b{dtype}\b", message)) for dtype in read) > 1


def _suspects(what: str, at: Sequence[str], graph: GraphView) -> dict[str, object] | None:
    """Parts for a complaint about an input that is not as in the model.

    at: the operators that the compiler says it failed at.
    """
    if what == "type" and at and at[-1] in _operators(graph):
        return _result(what, between(graph, at[-1]))
    return _result(what, before_last(graph, what)) if what in _INPUTS else None


def _result(what: str, suspects: Sequence[str]) -> dict[str, object] | None:
    return dict.fromkeys(_ERROR) | {RESULT: what, "of": list(suspects)} if suspects else None


def _generalised(message: str, graph: GraphView, stage: Stage, operator: str) -> str:
    """The message with placeholders for dtypes, operators and what these are lowered to."""
    dtypes = {*graph.dtypes.values()}
    message = without_calls(message)
    message = message if stage is Stage.IMPORT else without_intrinsics(message)
    return general_message(message, dtypes, _operators(graph, operator))


def _operators(graph: GraphView, operator: str = "") -> list[str]:
    """In order of computation; and that of the ONNX model, if it is only one."""
    names = [*graph.operators, operator]
    return list(dict.fromkeys(name for name in names if name))
