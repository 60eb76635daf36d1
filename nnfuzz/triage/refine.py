"""Signatures refined by what reduction left: two findings with the same one are one bug.

Before reduction a mismatch is known by operators around the first wrong output, many of which are
there by chance. The operators of a reduced graph are all needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nnfuzz.ir.edges import edge_keys
from nnfuzz.triage.signature import Failure, Signature, digest_of

_NUMBERS = ("value", "nonfinite")
_MOST_SHOWN = 6


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
    """The pattern of a concrete graph in its JSON form; empty without a graph."""
    if not graph:
        return Pattern((), ())
    dtypes = {name: dtype for name, dtype, _ in graph["values"]}
    depth: dict[str, int] = {}
    found = []
    for node in graph["nodes"]:
        inputs, outputs = ([dtypes[n] for n in node[side]] for side in ("inputs", "outputs"))
        level = 1 + max((depth.get(name, 0) for name in node["inputs"]), default=0)
        depth.update(dict.fromkeys(node["outputs"], level))
        found.append((level, f"{node['op']}({','.join(inputs)})->{','.join(outputs)}"))
    return Pattern(tuple(text for _, text in sorted(found)), tuple(sorted(edge_keys(graph))))


def refined(
    failure: Failure, graph: Mapping[str, Any] | None, passes: Sequence[str] = ()
) -> Signature:
    """The signature of a reduced failure, with the pattern of its graph.

    Kind, stage, levels and normalised error stay; which output was wrong, and whether its numbers
    were finite, goes. Where localisation accuses passes of the optimiser, they stand in for the
    pattern: one wrong pass shows in many patterns.
    """
    parts = {k: v for k, v in failure.signature.parts.items() if k != "operators"}
    if parts.get("wrong") in _NUMBERS:
        parts["wrong"] = "number"
    if passes:
        parts["passes"] = sorted(passes)
        return Signature(digest_of(parts), failure.signature.title, parts)
    pattern = pattern_of(graph)
    parts |= {"nodes": list(pattern.nodes), "edges": list(pattern.edges)}
    return Signature(digest_of(parts), failure.signature.title, parts)
