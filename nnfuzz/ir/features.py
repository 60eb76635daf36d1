"""Features of a graph for counting diversity: small enough to keep for every test.

`nnfuzz metrics`, selections and the page of a campaign all count these features.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nnfuzz.base.writing import as_list
from nnfuzz.ir.view import GraphView, NodeView, ValueView


@as_list
@dataclass(frozen=True)
class NodeFeatures:
    """One operator of a graph.

    dtypes, shapes: of its inputs in order, joined by commas; a shape is "2x3", that of a scalar "".
    vertex: eight hexadecimal digits over operator, attributes and the types of its inputs (a CRC:
    two of a million different vertices share one by chance about a hundred times). attributes:
    "NAME=CLASS" of each, see `value_class`.
    """

    op: str
    dtypes: str
    vertex: str
    shapes: str = ""
    attributes: tuple[str, ...] = ()

    @property
    def degree(self) -> int:
        """Inputs."""
        return self.dtypes.count(",") + 1 if self.dtypes else 0

    @property
    def rank(self) -> int:
        """The rank of the first input."""
        first = self.shapes.partition(",")[0]
        return first.count("x") + 1 if first else 0


@as_list
@dataclass(frozen=True)
class Features:
    """The parts of a graph that diversity counts.

    edges: per distinct pair of a producer and a consumer, their places in `nodes`.
    Source: Isra's operator and edge coverage; GenCoG's vertex diversity.
    """

    nodes: tuple[NodeFeatures, ...]
    edges: tuple[tuple[int, int], ...]

    def operators(self) -> set[str]:
        """Names of the operators."""
        return {node.op for node in self.nodes}

    def operator_dtypes(self) -> set[tuple[str, str]]:
        """Pairs of operator and dtypes of its inputs."""
        return {(node.op, node.dtypes) for node in self.nodes}

    def operator_ranks(self) -> set[tuple[str, int]]:
        """Pairs of operator and rank of its first input, of those that have one."""
        return {(node.op, node.rank) for node in self.nodes if node.degree}

    def operator_edges(self) -> set[tuple[str, str]]:
        """Pairs of operators; the second reads a result of the first."""
        return {(self.nodes[a].op, self.nodes[b].op) for a, b in self.edges}

    def operator_triples(self) -> set[tuple[str, str, str]]:
        """Triples of operators: the second reads the first, and the third the second."""
        readers: dict[int, list[int]] = {}
        for maker, reader in self.edges:
            readers.setdefault(maker, []).append(reader)
        return {
            (self.nodes[a].op, self.nodes[b].op, self.nodes[c].op)
            for a, b in self.edges
            for c in readers.get(b, ())
        }

    def vertices(self) -> set[str]:
        """Digests of operator, attributes and input types (`nodes`)."""
        return {node.vertex for node in self.nodes}

    def attribute_values(self) -> set[str]:
        """Operator with the dtypes of its inputs, alone and with each attribute's class."""
        heads = [(f"{node.op}({node.dtypes})", node.attributes) for node in self.nodes]
        plain = {head for head, _ in heads}
        return plain | {f"{head} {text}" for head, every in heads for text in every}


def features(graph: GraphView) -> Features:
    """The features of a graph of any origin."""
    types = {value.name: value for value in graph.values}
    nodes = tuple(_node(node, types) for node in graph.nodes)
    return Features(nodes, tuple(dict.fromkeys(_edges(graph.nodes))))


def value_class(value: Any) -> str:
    """The class of an attribute's value.

    A mode (text, bool, dtype) is its value; a number is negative, 0, 1 or more, since a size has
    too many values; a list is the classes of the least and the greatest of its elements.
    """
    if isinstance(value, bool) or not isinstance(value, _MEASURED):
        return "body" if isinstance(value, dict) and "steps" in value else _JSON(value)
    if isinstance(value, list):
        numbers = [v for v in value if isinstance(v, _NUMBERS)]
        ends = (min(numbers), max(numbers)) if numbers else ()
        return "[" + " ".join(map(value_class, ends)) + "]"
    if value < 0:
        return "negative"
    return str(int(value)) if value in (0, 1) else "more"


_NUMBERS = (int, float)
_MEASURED = (int, float, list)
_JSON = json.JSONEncoder().encode
_SORTED_JSON = json.JSONEncoder(sort_keys=True).encode


def _node(node: NodeView, types: Mapping[str, ValueView]) -> NodeFeatures:
    inputs = [(types[name].dtype, types[name].shape) for name in node.inputs]
    whole = _SORTED_JSON([node.op, dict(node.attributes), inputs])
    return NodeFeatures(
        node.op,
        ",".join(dtype for dtype, _ in inputs),
        f"{zlib.crc32(whole.encode()):08x}",
        ",".join("x".join(map(str, shape)) for _, shape in inputs),
        tuple(f"{name}={value_class(value)}" for name, value in node.attributes.items()),
    )


def _edges(nodes: Iterable[NodeView]) -> Iterator[tuple[int, int]]:
    made: dict[str, int] = {}
    for place, node in enumerate(nodes):
        yield from ((made[name], place) for name in node.inputs if name in made)
        made.update(dict.fromkeys(node.outputs, place))
