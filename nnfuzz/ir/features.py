"""Features of a concrete graph for counting diversity: small enough to keep for every test."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nnfuzz.ir.view import GraphView, NodeView, ValueView


@dataclass(frozen=True)
class Features:
    """The parts of a graph that diversity counts.

    nodes: per node its operator, the dtypes of its inputs joined by commas, and the vertex: eight
    hexadecimal digits over operator, attributes and the types of its inputs (a CRC: two of a
    million different vertices share one by chance about a hundred times). edges: per distinct
    pair of a producer and a consumer, their places in `nodes`.
    Source: Isra's operator and edge coverage; GenCoG's vertex diversity.
    """

    nodes: tuple[tuple[str, str, str], ...]
    edges: tuple[tuple[int, int], ...]

    def operators(self) -> set[str]:
        """Names of the operators."""
        return {op for op, _, _ in self.nodes}

    def operator_dtypes(self) -> set[tuple[str, str]]:
        """Pairs of operator and dtypes of its inputs."""
        return {(op, dtypes) for op, dtypes, _ in self.nodes}

    def operator_edges(self) -> set[tuple[str, str]]:
        """Pairs of operators of which one reads the other."""
        return {(self.nodes[a][0], self.nodes[b][0]) for a, b in self.edges}

    def vertices(self) -> set[str]:
        """Digests of operator, attributes and input types (`nodes`)."""
        return {vertex for _, _, vertex in self.nodes}

    def to_json(self) -> list[Any]:
        return [[list(node) for node in self.nodes], [list(edge) for edge in self.edges]]

    @classmethod
    def from_json(cls, data: list[Any]) -> Features:
        nodes, edges = data
        return cls(tuple(tuple(n) for n in nodes), tuple(tuple(e) for e in edges))


def features(graph: GraphView) -> Features:
    """The features of a concrete graph."""
    types = {value.name: value for value in graph.values}
    nodes = tuple(_node(node, types) for node in graph.nodes)
    return Features(nodes, tuple(dict.fromkeys(_edges(graph.nodes))))


def _node(node: NodeView, types: Mapping[str, ValueView]) -> tuple[str, str, str]:
    inputs = [(types[name].dtype, types[name].shape) for name in node.inputs]
    whole = json.dumps([node.op, dict(node.attributes), inputs], sort_keys=True)
    vertex = f"{zlib.crc32(whole.encode()):08x}"
    return node.op, ",".join(dtype for dtype, _ in inputs), vertex


def _edges(nodes: Iterable[NodeView]) -> Iterator[tuple[int, int]]:
    made: dict[str, int] = {}
    for place, node in enumerate(nodes):
        yield from ((made[name], place) for name in node.inputs if name in made)
        made.update(dict.fromkeys(node.outputs, place))
