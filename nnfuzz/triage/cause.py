"""Causes: what makes two reduced findings the same bug.

Before reduction a mismatch is known by operators around the first wrong output, many of which are
there by chance. The operators of a reduced graph are all needed; their dtypes are where float32
would not do, but another one might.

An error tells where a compiler noticed something. The operator that it names may only have got what
another one made wrong, and one check of a compiler fails for many operators: `blamed` finds parts
that are the same wherever one change of the compiler would mend the failures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType

from nnfuzz.backend.complaint import GENERATED
from nnfuzz.backend.numeric import Deviation
from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.target import rules_of
from nnfuzz.base.reading import Json, JsonObject
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.ir.view import GraphView, NodeView
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.headline import is_native
from nnfuzz.triage.keys import Hypothesis, Key, KeyKind, last_clause
from nnfuzz.triage.mismatch import (
    WrongOutput,
    few_digits,
    first_wrong,
    saturated,
    swamped,
)
from nnfuzz.triage.pattern import (
    CALLED,
    RESULT,
    SIZED,
    as_written,
    before_last,
    between,
    branches_added,
    coarse_graph,
    dtype_class,
    first_copy,
    from_last_location,
    general_message,
    operands,
    pattern_of,
    signatures,
    sole_operator,
    sources,
    switches,
    without_calls,
    without_intrinsics,
    written_types,
)
from nnfuzz.triage.signature import (
    DTYPE,
    EVERYWHERE,
    HABITS,
    SWITCHES,
    ErrorDetails,
    Failure,
    corrupted,
    digest_of,
    message_of,
    wrong_of,
)

_NUMBERS = ("value", "nonfinite")
_TYPES = ("shape", "dtype")
_CASTS = ("Cast", "CastLike")
_SUMS = "Reduce"
_FAMILIES = (_SUMS,)
"""What the names of operators begin with that differ by one function inside of the same loop, and
are themselves without it: where a reduction has no axes, each element is reduced by itself."""


@dataclass(frozen=True)
class Symptoms:
    """What a case that fails shows beside its failure and its graph.

    passes: of the optimiser, accused by localisation. operator: the only operator of the ONNX
    model, "" if there are several. rewrites: where an accused pass is a collection of unrelated
    rewrites, the operators that tell which (Backend.collections). largest: see
    nnfuzz.triage.mismatch; only of what reduction made simple. branches: see
    nnfuzz.triage.pattern.branches_added. types: see written_types there. constant: whether the
    result is right where a constant operand is an input of the model.
    """

    passes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    operator: str = ""
    rewrites: tuple[str, ...] = ()
    largest: float = 0.0
    branches: bool = False
    constant: bool = False
    types: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, case: TestCase, failure: Failure, verdict: Verdict | None) -> Symptoms:
        """The symptoms that take neither a localisation nor a reduction."""
        model, graph = case.model, case.graph
        return cls(
            verdict=verdict,
            operator=sole_operator(model, graph) if model else "",
            branches=bool(model) and branches_added(model, graph),
            types=written_types(model, graph) if model else {},
        )


NONE = Symptoms()


@dataclass(frozen=True, eq=False)
class Cause:
    """What is known of the cause of a reduced failure.

    own: the hash of `parts`, by which failures of one cause are known. graph: of the reduced model.
    passes, rewrites, constant: see Symptoms. kind, stage, messages: of the failure; messages of an
    error, none if they are not known. wrong: what of a result is (MismatchKind). explanations,
    follows, heals: see nnfuzz.reduction.diagnosis.Diagnosis. keys: by which findings are merged
    (nnfuzz.triage.keys).
    """

    own: str
    graph: GraphView
    passes: tuple[str, ...] = ()
    rewrites: tuple[str, ...] = ()
    kind: str = ""
    stage: str = ""
    explanations: tuple[Hypothesis, ...] = ()
    follows: str = ""
    messages: tuple[str, ...] = ()
    wrong: str = ""
    constant: bool = False
    heals: tuple[str, ...] = ()
    parts: Mapping[str, Json] = field(default_factory=dict)
    keys: frozenset[Key] = frozenset()

    @classmethod
    def of(cls, failure: Failure, graph: GraphView, symptoms: Symptoms = NONE) -> Cause:
        """The cause of a reduced failure, without what experiments tell of it."""
        parts = _parts(failure, graph, symptoms)
        return cls(
            digest_of(parts),
            graph,
            symptoms.passes,
            symptoms.rewrites,
            failure.kind.value,
            failure.stage.value,
            messages=messages(failure),
            wrong=wrong_of(failure.signature.details),
            constant=symptoms.constant,
            parts=parts,
        )

    def says(self, failure: Failure, graph: GraphView) -> bool:
        """Whether the failure of a graph may say the same, dtypes and operators aside."""
        graphs = (self.graph, graph)
        dtypes = {dtype for g in graphs for dtype in g.dtypes.values()}
        operators = {operator for g in graphs for operator in g.operators}
        mine, theirs = (
            {general_message(text, dtypes, operators) for text in texts}
            for texts in (self.messages, messages(failure))
        )
        return not mine or not mine.isdisjoint(theirs)

    @property
    def hash(self) -> str:
        """Equal for findings of one cause: its own hash, or that of the cause from which this
        failure only follows.
        """
        return self.follows or self.own

    @property
    def nodes(self) -> list[NodeView]:
        return first_copy(self.graph) if self.graph else []


def messages(failure: Failure) -> tuple[str, ...]:
    """What an error says, and what else it lists; of other failures "" alone."""
    details = failure.signature.details
    others = details.others or () if isinstance(details, ErrorDetails) else ()
    return (message_of(details), *(text for text, _ in others))


def _parts(failure: Failure, graph: GraphView, symptoms: Symptoms) -> JsonObject:
    """What a reduced failure shares with others of the same cause.

    A pass of the optimiser that localisation accuses is the cause of its wrong results, in whatever
    pattern and at whatever level, apart from those of another shape or dtype, and of an error with
    its words: a pass that raises in two ways has two faults. Misused memory is known by operators
    and the stage; what reads constants alone is executed at any stage. Else an error is known by
    what nnfuzz.triage.cause makes of it. A mismatch of one operator is known by that operator, by
    whether digits or everything is wrong, and whether its data are integers: reduction takes floats
    where they fail as well. Several are known by operators, edges and classes of dtypes.
    """
    parts = {
        k: v for k, v in failure.signature.parts.items() if k not in ("operators", SWITCHES, DTYPE)
    }
    if habits := parts.get(HABITS):
        parts = {HABITS: [Deviation.parse(habits[0]).decision]}  # each is a finding of its own
    elif rules := written_rules(failure):
        parts |= _written(failure, graph, symptoms.operator) | {"rules": rules}
    elif symptoms.passes:
        message, kind = parts.get("message", ""), failure.kind.value
        parts = {"passes": sorted(symptoms.passes), "kind": kind}
        wrong = wrong_of(failure.signature.details)
        parts |= _rewrite(message, graph, symptoms) | ({RESULT: wrong} if wrong in _TYPES else {})
    elif failure.kind is OutcomeKind.MISMATCH:
        parts |= _mismatch(failure, graph, symptoms)
    elif corrupted(failure.signature.details):
        parts |= dict.fromkeys(("signal", "message", "levels", "frames")) | _where(graph, symptoms)
        parts["wrong"] = "memory"
        parts["stage"] = (failure.stage if graph.inputs else Stage.EXECUTE).value
    elif graph and parts.get("message"):
        parts |= blamed(failure, graph, symptoms.operator, symptoms.branches, symptoms.types)
    else:
        parts |= _where(graph, symptoms)
    return {k: v for k, v in parts.items() if v is not None} | {"backend": failure.compiler}


def written_rules(failure: Failure) -> list[str]:
    """The rules of the failing form if they change the file alone, and not the computation; else
    none.
    """
    from nnfuzz.vary.rewrite.rewriting import WRITTEN

    rules = rules_of(failure.targets[0].form)
    return rules if WRITTEN.issuperset(rules) else []


def _written(failure: Failure, graph: GraphView, operator: str) -> dict[str, object]:
    """Parts of the cause of a failure that occurs only with another file. The operator is none of
    them: a value that is read wrongly can make any operator compute wrong values or raise.
    """
    if failure.stage in (Stage.EXECUTE, Stage.COMPARE):
        gone = (*_ERROR, "signal", "levels", "others", "varies")
        return dict.fromkeys(gone) | {"wrong": "number"}
    message, dtypes = message_of(failure.signature.details), {*graph.dtypes.values()}
    general = general_message(message, dtypes, _operators(graph, operator))
    return _said(general) | {"frames": None}


def _rewrite(message: str, graph: GraphView, symptoms: Symptoms) -> dict[str, object]:
    """The parts that distinguish the faults of one pass. Errors differ by their statement, whatever
    the pass was applied to. Wrong results differ by operators if the pass is a collection.
    """
    if not message:
        return {"apart": sorted(symptoms.rewrites)} if symptoms.rewrites else {}
    dtypes = {*graph.dtypes.values()}
    operators = {*graph.operators}
    return {"message": from_last_location(message) or general_message(message, dtypes, operators)}


def _mismatch(failure: Failure, graph: GraphView, symptoms: Symptoms) -> JsonObject:
    """Parts that replace those of a mismatch; None: not part of it."""
    kind = failure.signature.parts.get("wrong", "")
    if kind in _NUMBERS and graph:
        kind = _kind_of_number(failure, graph, symptoms)
    where = _where(graph, symptoms)
    if kind in _TYPES and "operator" in where:
        # The same operator makes others fail that read its result (nnfuzz.triage.cause).
        return dict.fromkeys(("kind", "stage", "wrong", "levels")) | {
            RESULT: kind,
            "of": [where["operator"]],
        }
    if "operator" in where and kind == "digits" and _sums_integers(failure, graph, symptoms):
        where["operator"] = _SUMS
    elif "operator" in where and (kind == "digits" or _without_axes(graph)):
        where["operator"] = _family(where["operator"])
    elif "operator" in where and kind == "number":
        where[SWITCHES] = switches(graph, where["operator"]) or None
        where["many"] = operands(graph, where["operator"]) > 2 or None
        where["integers"] = _of_integers(graph) or None
    if "operator" in where:
        where["constant"] = symptoms.constant or None
    written = signatures(coarse_graph(graph))
    casts = [node for node in written if node.partition("(")[0] in _CASTS]
    if len(_casts(graph)) > 1 and failure.signature.parts.get("levels") == EVERYWHERE:
        # There and back: the rounding in between is lost, whatever is computed meanwhile.
        return {"wrong": kind, "casts": casts}
    return {"wrong": kind, **where}


def _of_integers(graph: GraphView) -> bool:
    """Whether the first operand of a graph is integers."""
    return any(dtype_class(graph.dtypes[name]) == "integer" for name in graph.nodes[0].inputs[:1])


def _family(operator: str) -> str:
    """The accumulator of a loop has one type, whatever is accumulated."""
    return next((name for name in _FAMILIES if operator.startswith(name)), operator)


def _sums_integers(failure: Failure, graph: GraphView, symptoms: Symptoms) -> bool:
    """Whether an operator makes fewer integers of more, or sums along an axis of one, which takes
    an accumulator.
    """
    first, dtype = _first(failure, graph, symptoms)
    if first is None or dtype_class(dtype) != "integer":
        return False
    shapes = graph.shapes
    made = shapes[first.output]
    read = [shapes[name] for node in graph.nodes for name in node.inputs]
    return any(prod(shape) > prod(made) or len(shape) > len(made) for shape in read)


def _without_axes(graph: GraphView) -> bool:
    """Whether nothing is reduced: what is forgotten then is forgotten for the whole family."""
    return any(node.attributes.get("axes") == [] for node in graph.nodes)


def _casts(graph: GraphView) -> list[str]:
    return [node.op for node in graph.nodes if node.op in _CASTS]


def _kind_of_number(failure: Failure, graph: GraphView, symptoms: Symptoms) -> str:
    """ "digits" where a number is nearly right, an integer stops at the end of its range, or it
    takes large floats to make NaN or Inf: signs of too narrow a type in between, such as a float
    for integers. Else "number".
    """
    first, dtype = _first(failure, graph, symptoms)
    if first is None:
        return "number"
    narrow = few_digits(first, dtype) or saturated(first, dtype)
    return "digits" if narrow or swamped(first, dtype, symptoms.largest) else "number"


def _first(
    failure: Failure, graph: GraphView, symptoms: Symptoms
) -> tuple[WrongOutput | None, str]:
    """The first wrong output and its dtype; None and "" if the verdict does not tell."""
    dtypes = graph.dtypes
    order = [name for node in graph.nodes for name in node.outputs]
    first = first_wrong(symptoms.verdict, failure.targets, order)
    return first, dtypes.get(first.output, "") if first else ""


def _where(graph: GraphView, symptoms: Symptoms) -> JsonObject:
    """The only operator; or the pattern without the exact dtypes."""
    if not graph:
        return {}
    operators = {*graph.operators}
    several = [mark for mark in (SIZED, CALLED) if mark in pattern_of(graph).nodes]
    if symptoms.operator or len(operators) == 1:
        place: dict[str, object] = {"operator": symptoms.operator or min(operators)}
        return place | ({"sized": True} if SIZED in several else {})
    coarse = coarse_graph(graph)
    return {"nodes": signatures(coarse) + several, "edges": list(pattern_of(coarse).edges)}


NO_TYPES: Mapping[str, str] = MappingProxyType({})
_INPUTS = ("dtype", "shape", "type")
_VAGUE = re.compile(r"(?<!<)\boperator\b")
"""Speaks of an operator without saying which."""
_SHAPE = re.compile(r"shape|rank|ndim|dimension", re.IGNORECASE)
_OUTPUT = re.compile(r"\boutputs?\b", re.IGNORECASE)
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
    3. A native function that the message names is the cause, for whatever operator and rewrite. So
       is what another compiler says of generated code.
    4. A reduced model that still needs a rewrite is known by its rules and the message: operators
       are only what the rules were applied to.
    5. While the model runs, an operator that the message names is the cause; if it names none, the
       message counts, and what is computed first.
    6. What an importer cannot take behind another operator is the other one's fault, whatever it
       says. So is what code generation says of shapes, or of an operator that it does not name. Of
       a single operator that is its own, whose pieces do not fit, unless a native frame tells more
       of shapes; where the shape of an output is checked, that frame is the same for all operators.
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
    if parts.get("location") == GENERATED:
        return dict.fromkeys(_ERROR) | {"message": general}
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
    placed = native and not _OUTPUT.search(general)
    unclear = _VAGUE.search(general) or (_SHAPE.search(general) and not placed)
    if stage is Stage.COMPILE and not behind and unclear:
        # The same among the pieces that the operator is translated to.
        return dict.fromkeys(_ERROR) | {RESULT: "use", "of": [own]}
    if native and not _VAGUE.search(general):
        return _said(general) | {"stage": None, "error": None, "frames": native[-1:]}
    return _said(general) | ({"behind": behind} if behind else {"operator": own})


def _said(general: str) -> dict[str, object]:
    """The message in general words instead of what a complaint says of this model. A whole
    statement is the same fault wherever it is called from, be it at import or later.
    """
    said = {"message": general, "about": None, "at": None, "location": None}
    return said | (dict.fromkeys(("stage", "frames")) if last_clause(general) else {})


def _unlike(message: str, graph: GraphView) -> bool:
    """Whether the message names several of the dtypes that are read in the model."""
    read = {graph.dtypes[name] for node in graph.nodes for name in node.inputs}
    return sum(bool(re.search(rf"\b{dtype}\b", message)) for dtype in read) > 1


def _suspects(what: str, at: Sequence[str], graph: GraphView) -> dict[str, object] | None:
    """Parts for a complaint about an input that is not as in the model.

    at: the operators that the compiler says it failed at.
    """
    if what == "type" and at and at[-1] in _operators(graph):
        return _result(what, between(graph, at[-1]))
    return _result(what, before_last(graph, what)) if what in _INPUTS else None


_FACT = re.compile(
    r"\b(?:shape|rank|ndim|dim|dimension|ax[ie]s|extent|size|broadcast\w*)s?\b", re.IGNORECASE
)
_TYPE = re.compile(r"\b(?:d(?:ata ?)?|element |scalar )types?\b", re.IGNORECASE)


def wrong_fact(failure: Failure) -> str:
    """What an error finds wrong with a value, "dtype" or "shape"; "" if it speaks of neither."""
    parts = failure.signature.parts
    about, message = parts.get("about", ""), parts.get("message", "")
    if about == "dtype" or (not about and _TYPE.search(message)):
        return "dtype"
    return "shape" if about in ("shape", "type") or _FACT.search(message) else ""


def type_key(compiler: str, fact: str, operator: str) -> Key:
    """The key of all that follows from a wrong dtype or shape of an operator's result."""
    parts = {RESULT: fact, "of": [operator], "backend": compiler}
    return Key(KeyKind.CAUSE, digest_of(parts))


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
