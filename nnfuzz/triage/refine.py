"""Signatures refined by what reduction left: two findings with the same one are one bug.

Before reduction a mismatch is known by operators around the first wrong output, many of which are
there by chance. The operators of a reduced graph are all needed; their dtypes are where float32
would not do, but another one might.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nnfuzz.execute.outcome import OutcomeKind, Stage
from nnfuzz.ir.edges import edge_keys
from nnfuzz.ir.sizes import split
from nnfuzz.triage.general import (
    OPERATOR,
    before_last,
    coarse_graph,
    general_message,
    signatures,
    sources,
    without_intrinsics,
)
from nnfuzz.triage.mismatch import few_digits, first_wrong
from nnfuzz.triage.signature import Failure, Signature, digest_of

_NUMBERS = ("value", "nonfinite")
_MOST_SHOWN = 6
_INFERENCE = "InferenceError"
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

    @cached_property
    def _bare(self) -> tuple[set[str], set[str]]:
        """Operators and edges without dtypes."""
        return tuple({text.partition("(")[0] for text in part} for part in (self.nodes, self.edges))

    def _dtypes(self) -> list[str]:
        found: dict[str, None] = {}
        for node in self.nodes:
            inputs, _, output = node.partition("(")[2].partition(")->")
            found.update(dict.fromkeys([*inputs.split(","), output]))
        return [dtype for dtype in found if dtype]


def pattern_of(graph: Mapping[str, Any] | None) -> Pattern:
    """The pattern of a concrete graph in its JSON form; empty without a graph.

    Of a graph at several sizes (nnfuzz.ir.sizes) one copy counts, and that there are several.
    """
    if not graph:
        return Pattern((), ())
    copies = [(split(node["outputs"][0])[1], node) for node in graph["nodes"]]
    first = min((copy for copy, _ in copies), default=0)
    nodes = [node for copy, node in copies if copy == first]
    sized = len(nodes) < len(graph["nodes"])
    graph = {**graph, "nodes": nodes}
    dtypes = {name: dtype for name, dtype, _ in graph["values"]}
    depth: dict[str, int] = {}
    found = []
    for node in graph["nodes"]:
        inputs, outputs = ([dtypes[n] for n in node[side]] for side in ("inputs", "outputs"))
        level = 1 + max((depth.get(name, 0) for name in node["inputs"]), default=0)
        depth.update(dict.fromkeys(node["outputs"], level))
        found.append((level, f"{node['op']}({','.join(inputs)})->{','.join(outputs)}"))
    texts = [text for _, text in sorted(found)] + [SIZED] * sized
    return Pattern(tuple(texts), tuple(sorted(edge_keys(graph))))


@dataclass(frozen=True)
class Clues:
    """What else is known of a reduced failure.

    passes: of the optimiser, accused by localisation. verdict: Verdict.to_json(). operator: the
    only operator of the ONNX model, "" if there are several. needs: its attributes that reduction
    could not make trivial.
    """

    passes: tuple[str, ...] = ()
    verdict: Mapping[str, Any] | None = None
    operator: str = ""
    needs: tuple[str, ...] = ()


def refined(
    failure: Failure, graph: Mapping[str, Any] | None, clues: Clues | None = None
) -> Signature:
    """The signature of a reduced failure: what it shares with others of the same cause.

    Where localisation accuses passes of the optimiser, they stand in for the pattern: one wrong
    pass shows in many patterns. Else an error is known by its message and frames, a mismatch by
    operators and classes of dtypes, and by how far it is off.
    """
    clues = clues or Clues()
    parts = {k: v for k, v in failure.signature.parts.items() if k != "operators"}
    if failure.kind is OutcomeKind.MISMATCH:
        parts |= _mismatch(failure, graph, clues)
    elif graph and parts.get("message"):
        parts |= _error(failure, graph, clues)
        parts = {k: v for k, v in parts.items() if v is not None}
    else:
        parts |= _where(graph, clues)
    return Signature(digest_of(parts), failure.signature.title, parts)


def _mismatch(failure: Failure, graph: Mapping[str, Any] | None, clues: Clues) -> dict[str, Any]:
    kind = failure.signature.parts.get("wrong", "")
    if kind in _NUMBERS and graph:
        dtypes = {name: dtype for name, dtype, _ in graph["values"]}
        order = [name for node in graph["nodes"] for name in node["outputs"]]
        first = first_wrong(clues.verdict, failure.backend, failure.levels, order)
        few = first is not None and few_digits(first, dtypes.get(first.output, ""))
        kind = "digits" if few and not clues.passes else "number"
        if kind == "digits" and len({node["op"] for node in graph["nodes"]}) == 1:
            # An operator that computes in too narrow a type does so for integers and floats alike.
            return {"wrong": kind, "operator": clues.operator or graph["nodes"][0]["op"]}
    return {"wrong": kind, **_where(graph, clues)}


def _error(failure: Failure, graph: Mapping[str, Any], clues: Clues) -> dict[str, Any]:
    """Parts that replace those of an error with a message; None: not part of it.

    An importer translates operator by operator: what it cannot take behind another operator is the
    other one's fault, whatever it says. Elsewhere an operator counts unless the message has its
    name and a native frame says where that is a parameter.
    """
    parts = failure.signature.parts
    dtypes = {dtype for _, dtype, _ in graph["values"]}
    if clues.passes:
        message = general_message(parts["message"], dtypes, ())
        return {"message": message, "passes": sorted(clues.passes)}
    suspects = before_last(graph) if failure.stage is not Stage.IMPORT else []
    if suspects and (_INFERENCE in parts["message"] or parts.get("error") == "TypeError"):
        # What a node says of the type of its input concerns the one that computes it.
        return dict.fromkeys(("error", "message", "frames")) | {"before": suspects}
    behind, importing = sources(graph), failure.stage is Stage.IMPORT
    if behind and importing:
        return dict.fromkeys(("error", "message", "frames")) | {"behind": behind}
    message = parts["message"] if importing else without_intrinsics(parts["message"])
    message = general_message(message, dtypes, [node["op"] for node in graph["nodes"]])
    if OPERATOR in message and any("::" in frame for frame in parts.get("frames", ())):
        return {"message": message}
    if behind:
        return {"message": message, "behind": behind}
    return {"message": message, "operator": clues.operator or graph["nodes"][0]["op"]}


def _where(graph: Mapping[str, Any] | None, clues: Clues) -> dict[str, Any]:
    """The accused passes, or the pattern without the exact dtypes."""
    if clues.passes or not graph:
        return {"passes": sorted(clues.passes)}
    coarse = coarse_graph(graph, clues.operator)
    pattern = pattern_of(coarse)
    sized = [SIZED] * (SIZED in pattern.nodes)
    found: dict[str, Any] = {"nodes": signatures(coarse) + sized, "edges": list(pattern.edges)}
    if clues.operator and [node["op"] for node in graph["nodes"]] != [clues.operator]:
        found["needs"] = sorted(clues.needs)  # several specs are modes of one operator
    return found
