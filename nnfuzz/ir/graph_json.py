"""Graphs in JSON that others have written: what must hold before anybody reads one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nnfuzz.reading import Unreadable, read

MAX_BYTES = 1 << 30
"""Of all values in float64: four times what a worker may grow by default."""


@dataclass(frozen=True)
class _Node:
    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class _Graph:
    """`Graph.to_json`."""

    values: tuple[tuple[str, str, tuple[int, ...]], ...]
    nodes: tuple[_Node, ...]
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    outputs: tuple[str, ...]
    schema: int = 0
    prescribed: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def checked_graph(data: Any) -> dict[str, Any]:
    """The graph as it is, if it has the form of one: every name has a type, and is defined before
    it is read; all values together fit into memory. Operators and dtypes may be unknown.

    Raises: Unreadable.
    """
    graph = read(_Graph, data)
    types = {name for name, _, _ in graph.values}
    defined = {*graph.inputs, *graph.weights}
    for node in graph.nodes:
        if not node.outputs or not defined.issuperset(node.inputs):
            raise Unreadable(f"graph: {node.op} reads what is not computed, or computes nothing")
        defined.update(node.outputs)
    if not defined.issuperset(graph.outputs) or not types.issuperset(defined):
        raise Unreadable("graph: an output is not computed, or a value has no type")
    if any(min(shape, default=0) < 0 for _, _, shape in graph.values):
        raise Unreadable("graph: a dimension is negative")
    if sum(8 * math.prod(shape) for _, _, shape in graph.values) > MAX_BYTES:
        raise Unreadable(f"graph: its values have more than {MAX_BYTES:,} bytes in float64")
    return dict(data)
