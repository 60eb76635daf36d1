"""What Graph.to_json writes, checked without the operators: for graphs that others have made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nnfuzz.ir.dtypes import DType
from nnfuzz.reading import Unreadable, read


@dataclass(frozen=True)
class _Node:
    op: str
    attributes: dict[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class _Graph:
    values: tuple[tuple[str, DType, tuple[int, ...]], ...]
    nodes: tuple[_Node, ...]
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    outputs: tuple[str, ...]
    schema: int = 1
    prescribed: dict[str, tuple[float, ...]] = field(default_factory=dict)


def checked_graph(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same graph, if every name in it stands for a value with a type. Raises: Unreadable."""
    graph = read(_Graph, data)
    known = {name for name, _, _ in graph.values}
    used = [*graph.inputs, *graph.weights, *graph.outputs, *graph.prescribed]
    used += [name for node in graph.nodes for name in (*node.inputs, *node.outputs)]
    if unknown := set(used) - known:
        raise Unreadable(f"the graph has no value {min(unknown)!r}")
    return dict(data)
