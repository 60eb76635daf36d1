"""Signatures refined by what reduction left: two findings with the same one are one bug.

Before reduction a mismatch is known by operators around the first wrong output, many of which are
there by chance. The operators of a reduced graph are all needed; their dtypes are where float32
would not do, but another one might.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from nnfuzz.backend.deviation import Deviation
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.base.reading import JsonObject
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.ir.edges import edge_keys
from nnfuzz.ir.sizes import name_and_copy
from nnfuzz.ir.view import GraphView, NodeView
from nnfuzz.triage.blame import RESULT, blamed
from nnfuzz.triage.general import (
    coarse_graph,
    dtype_class,
    from_last_location,
    general_message,
    operands,
    signatures,
    switches,
)
from nnfuzz.triage.identity import EVERYWHERE, HABITS, SWITCHES, corrupted, digest_of
from nnfuzz.triage.mismatch import (
    WrongOutput,
    compares_low_words,
    few_digits,
    first_wrong,
    saturated,
    swamped,
)
from nnfuzz.triage.signature import Failure, Signature

_NUMBERS = ("value", "nonfinite")
_TYPES = ("shape", "dtype")
_CASTS = ("Cast", "CastLike")
_SUMS = "Reduce"
_FAMILIES = (_SUMS,)
"""What the names of operators begin with that differ by one function inside of the same loop, and
are themselves without it: where a reduction has no axes, each element is reduced by itself."""
_LOW_WORDS = "low words"
_MOST_SHOWN = 6
SIZED = "a symbolic dimension()->"
"""Among the nodes of a pattern that needs one."""


@dataclass(frozen=True)
class Pattern:
    """What a graph consists of, whatever its names, shapes and attributes.

    nodes: "Op(dtype, ...)->dtype", in topological order; edges: see nnfuzz.ir.edges, sorted.
    """

    nodes: tuple[str, ...]
    edges: tuple[str, ...]

    def __str__(self) -> str:
        """Operators and dtypes for people: "Relu, Conv (float32)"."""
        operators = [node.partition("(")[0] for node in self.nodes]
        text = ", ".join(operators[:_MOST_SHOWN])
        text += f" and {len(operators) - _MOST_SHOWN} more" if operators[_MOST_SHOWN:] else ""
        return f"{text} ({', '.join(self._dtypes())})" if operators else ""

    def within(self, other: Pattern) -> bool:
        """Whether the other pattern has all operators and edges of this one, of whatever dtypes:
        reduction changes these where it can.
        """
        return all(mine <= theirs for mine, theirs in zip(self._bare, other._bare, strict=True))

    def like(self, other: Pattern) -> bool:
        """Whether the operators and edges are the same, of whatever dtypes."""
        return self.within(other) and other.within(self)

    @cached_property
    def _bare(self) -> tuple[set[str], set[str]]:
        """Operators and edges without dtypes."""
        nodes, edges = (
            {text.partition("(")[0] for text in part} for part in (self.nodes, self.edges)
        )
        return nodes, edges

    def _dtypes(self) -> list[str]:
        dtypes: dict[str, None] = {}
        for node in self.nodes:
            inputs, _, output = node.partition("(")[2].partition(")->")
            dtypes.update(dict.fromkeys([*inputs.split(","), *output.split(",")]))
        return [dtype for dtype in dtypes if dtype]


def first_copy(graph: GraphView) -> list[NodeView]:
    """The nodes of a graph; of one at several sizes (nnfuzz.ir.sizes), those of the first copy."""
    copies = [(name_and_copy(node.outputs[0])[1], node) for node in graph.nodes]
    first = min((copy for copy, _ in copies), default=0)
    return [node for copy, node in copies if copy == first]


def upstream(graph: GraphView, output: str) -> GraphView:
    """The part of a graph that a value depends on."""
    needed, nodes = {output}, []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes[::-1]))


def pattern_of(graph: GraphView) -> Pattern:
    """The pattern of a concrete graph; empty without a graph.

    Of a graph at several sizes (nnfuzz.ir.sizes) one copy counts, and that there are several.
    """
    if not graph:
        return Pattern((), ())
    nodes = first_copy(graph)
    sized = len(nodes) < len(graph.nodes)
    graph = replace(graph, nodes=tuple(nodes))
    dtypes = graph.dtypes
    depth: dict[str, int] = {}
    levelled = []
    for node in graph.nodes:
        inputs, outputs = (
            [dtypes[n] for n in getattr(node, side)] for side in ("inputs", "outputs")
        )
        level = 1 + max((depth.get(name, 0) for name in node.inputs), default=0)
        depth.update(dict.fromkeys(node.outputs, level))
        levelled.append((level, f"{node.op}({','.join(inputs)})->{','.join(outputs)}"))
    texts = [text for _, text in sorted(levelled)] + [SIZED] * sized
    return Pattern(tuple(texts), tuple(sorted(edge_keys(graph))))


@dataclass(frozen=True)
class TriageFacts:
    """What else is known of a reduced failure.

    passes: of the optimiser, accused by localisation. operator: the only operator of the ONNX
    model, "" if there are several. apart: where an accused pass is a collection of unrelated
    rewrites, the operators that tell which (Backend.collections).
    operands, largest: see nnfuzz.triage.operands; largest only of what reduction made simple.
    branches: see nnfuzz.triage.general.branches_added. types: see written_types there.
    constant: whether the result is right where a constant operand is an input of the model.
    """

    passes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    operator: str = ""
    apart: tuple[str, ...] = ()
    operands: tuple[int, ...] = ()
    largest: float = 0.0
    branches: bool = False
    constant: bool = False
    types: Mapping[str, str] = field(default_factory=dict, hash=False)


def refined(failure: Failure, graph: GraphView, facts: TriageFacts | None = None) -> Signature:
    """The signature of a reduced failure: what it shares with others of the same cause.

    A pass of the optimiser that localisation accuses is the cause, in whatever pattern, level and
    way it shows: as an error, wrong values or a wrong shape. Misused memory is known by operators
    and the stage. Else an error is known by what
    nnfuzz.triage.blame makes of it, a mismatch of one operator by that operator and by whether
    digits or everything is wrong, one of several by operators, edges and classes of dtypes.
    """
    facts = facts or TriageFacts()
    parts = {k: v for k, v in failure.signature.parts.items() if k not in ("operators", SWITCHES)}
    if habits := parts.get(HABITS):
        parts = {HABITS: [Deviation.parse(habits[0]).decision]}  # each is a finding of its own
    elif facts.passes:
        message = parts.get("message", "")
        parts = {"passes": sorted(facts.passes)}
        parts |= _apart(message, graph, facts) if facts.apart else {}
    elif failure.kind is OutcomeKind.MISMATCH:
        parts |= _mismatch(failure, graph, facts)
    elif corrupted(failure.signature.identity):
        parts |= dict.fromkeys(("signal", "message", "levels", "frames")) | _where(graph, facts)
        parts["wrong"] = "memory"
    elif graph and parts.get("message"):
        parts |= blamed(failure, graph, facts.operator, facts.branches, facts.types)
    else:
        parts |= _where(graph, facts)
    parts = {k: v for k, v in parts.items() if v is not None} | {"backend": failure.compiler}
    return Signature(digest_of(parts), failure.signature.title, parts)


def _apart(message: str, graph: GraphView, facts: TriageFacts) -> dict[str, object]:
    """Which rewrite of a collection it is: as an error says, whatever it was applied to, or else by
    the operators.
    """
    if not message:
        return {"apart": sorted(facts.apart)}
    dtypes = {*graph.dtypes.values()}
    operators = {*graph.operators}
    return {"message": from_last_location(message) or general_message(message, dtypes, operators)}


def _mismatch(failure: Failure, graph: GraphView, facts: TriageFacts) -> JsonObject:
    """Parts that replace those of a mismatch; None: not part of it."""
    kind = failure.signature.parts.get("wrong", "")
    if kind in _NUMBERS and graph:
        kind = _kind_of_number(failure, graph, facts)
    where = _where(graph, facts)
    if kind in _TYPES and "operator" in where:
        # The same operator makes others fail that read its result (nnfuzz.triage.blame).
        return dict.fromkeys(("kind", "stage", "wrong", "levels")) | {
            RESULT: kind,
            "of": [where["operator"]],
        }
    if kind == _LOW_WORDS:
        # Whatever compares: Max, Clip, Sign.
        return {"wrong": kind}
    if "operator" in where and kind == "digits" and _sums_integers(failure, graph, facts):
        where["operator"] = _SUMS
    elif "operator" in where and (kind == "digits" or _without_axes(graph)):
        where["operator"] = _family(where["operator"])
    elif "operator" in where and kind == "number":
        where[SWITCHES] = switches(graph, where["operator"]) or None
        where["many"] = operands(graph, where["operator"]) > 2 or None
    if "operator" in where:
        where["constant"] = facts.constant or None
    casts = [node for node in where.get("nodes", ()) if node.partition("(")[0] in _CASTS]
    if len(_casts(graph)) > 1 and failure.signature.parts.get("levels") == EVERYWHERE:
        # There and back: the rounding in between is lost, whatever is computed meanwhile.
        return {"wrong": kind, "casts": casts}
    return {"wrong": kind, **where}


def _family(operator: str) -> str:
    """The accumulator of a loop has one type, whatever is accumulated."""
    return next((name for name in _FAMILIES if operator.startswith(name)), operator)


def _sums_integers(failure: Failure, graph: GraphView, facts: TriageFacts) -> bool:
    """Whether an operator makes fewer integers of more, or sums along an axis of one, which takes
    an accumulator.
    """
    first, dtype = _first(failure, graph, facts)
    if first is None or dtype_class(dtype) != "integer":
        return False
    shapes = graph.shapes
    made = shapes[first.output]
    read = [shapes[name] for node in graph.nodes for name in node.inputs]
    return any(prod(shape) > prod(made) or len(shape) > len(made) for shape in read)


def _without_axes(graph: GraphView) -> bool:
    """Whether nothing is reduced: what is forgotten then is forgotten for the whole family."""
    nodes = graph.nodes
    return any(node.attributes.get("axes") == [] for node in nodes)


def _casts(graph: GraphView) -> list[str]:
    return [node.op for node in graph.nodes if node.op in _CASTS]


def _kind_of_number(failure: Failure, graph: GraphView, facts: TriageFacts) -> str:
    """ "digits" where a number is nearly right, an integer stops at the end of its range, or it
    takes large floats to make NaN or Inf: signs of too narrow a type in between, such as a float
    for integers. "low words" where integers were compared by these. Else "number".
    """
    first, dtype = _first(failure, graph, facts)
    if first is None:
        return "number"
    if few_digits(first, dtype) or saturated(first, dtype) or swamped(first, dtype, facts.largest):
        return "digits"
    return _LOW_WORDS if compares_low_words(first, dtype, facts.operands) else "number"


def _first(
    failure: Failure, graph: GraphView, facts: TriageFacts
) -> tuple[WrongOutput | None, str]:
    """The first wrong output and its dtype; None and "" if the verdict does not tell."""
    dtypes = graph.dtypes
    order = [name for node in graph.nodes for name in node.outputs]
    first = first_wrong(facts.verdict, failure.targets, order)
    return first, dtypes.get(first.output, "") if first else ""


def _where(graph: GraphView, facts: TriageFacts) -> JsonObject:
    """The only operator; or the pattern without the exact dtypes."""
    if not graph:
        return {}
    operators = {*graph.operators}
    sized = [SIZED] * (SIZED in pattern_of(graph).nodes)
    if facts.operator or len(operators) == 1:
        place: dict[str, object] = {"operator": facts.operator or min(operators)}
        return place | ({"sized": True} if sized else {})
    coarse = coarse_graph(graph)
    return {"nodes": signatures(coarse) + sized, "edges": list(pattern_of(coarse).edges)}
