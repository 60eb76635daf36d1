"""Finds the operators of a model that a compiler's optimised model lacks."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 4
"""Most operators of a group that is reported as a whole; a larger group is reported as pairs."""


def removed(before: bytes, after: bytes) -> list[str]:
    """Groups of connected nodes that were removed, as "A+B"; [""] if there are none.

    A node is kept if a node of the same operator and first output is in the other model.
    """
    import onnx

    old, new = (list(onnx.load_model_from_string(data).graph.node) for data in (before, after))
    there = {(node.op_type, *node.output[:1]) for node in new}
    lost = [node for node in old if (node.op_type, *node.output[:1]) not in there]
    made = {name: place for place, node in enumerate(lost) for name in node.output if name}
    edges = [(made[i], place) for place, node in enumerate(lost) for i in node.input if i in made]
    patterns: dict[str, None] = {}
    for group in _connected(len(lost), edges):
        ops = [lost[place].op_type for place in group]
        if len(ops) <= MOST:
            patterns["+".join(sorted(ops))] = None
        else:
            inside = [(a, b) for a, b in edges if a in group]
            patterns |= dict.fromkeys(
                "+".join(sorted((lost[a].op_type, lost[b].op_type))) for a, b in inside
            )
    return list(patterns) or [""]


def _connected(count: int, edges: Sequence[tuple[int, int]]) -> list[set[int]]:
    """The connected components of a graph of `count` nodes."""
    of = {place: {place} for place in range(count)}
    for a, b in edges:
        if of[a] is not of[b]:
            of[a] |= of[b]
            for place in of[b]:
                of[place] = of[a]
    return list({id(group): group for group in of.values()}.values())
