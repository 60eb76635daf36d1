"""Features of a graph by which diversity is counted; small enough to store for every test.

`nnfuzz metrics`, corpus selection and a campaign's page count them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nnfuzz.base.writing import as_list
from nnfuzz.ir.view import GraphView, NodeView


@as_list
@dataclass(frozen=True)
class NodeFeatures:
    """One operator of a graph.

    dtypes, shapes: of the inputs in order, joined by commas; a shape is "2x3", a scalar's is "".
    vertex: CRC-32 of operator, attributes and input types, as eight hexadecimal digits (among a
    million different vertices, about a hundred pairs collide). attributes: "NAME=CLASS" of each
    attribute, with the class of its value (`value_class`).
    """

    op: str
    dtypes: str
    vertex: str
    shapes: str = ""
    attributes: tuple[str, ...] = ()

    @property
    def degree(self) -> int:
        """Number of inputs."""
        return self.dtypes.count(",") + 1 if self.dtypes else 0

    @property
    def rank(self) -> int:
        """The rank of the first input."""
        first = self.shapes.partition(",")[0]
        return first.count("x") + 1 if first else 0


@as_list
@dataclass(frozen=True)
class Features:
    """The features of a graph.

    edges: distinct pairs of a producer and a consumer, as positions in `nodes`. Source: Isra's
    operator and edge coverage; GenCoG's vertex diversity.
    """

    nodes: tuple[NodeFeatures, ...]
    edges: tuple[tuple[int, int], ...]

    def operators(self) -> set[str]:
        """Names of the operators."""
        return {node.op for node in self.nodes}

    def operator_dtypes(self) -> set[tuple[str, str]]:
        """Pairs of an operator and the dtypes of its inputs."""
        return {(node.op, node.dtypes) for node in self.nodes}

    def operator_ranks(self) -> set[tuple[str, int]]:
        """Pairs of an operator (one with inputs) and the rank of its first input."""
        return {(node.op, node.rank) for node in self.nodes if node.degree}

    def operator_edges(self) -> set[tuple[str, str]]:
        """Pairs of operators of which the second reads a result of the first."""
        return {(self.nodes[a].op, self.nodes[b].op) for a, b in self.edges}

    def operator_triples(self) -> set[tuple[str, str, str]]:
        """Chains of three operators: the second reads the first, the third reads the second."""
        readers: dict[int, list[int]] = {}
        for maker, reader in self.edges:
            readers.setdefault(maker, []).append(reader)
        return {
            (self.nodes[a].op, self.nodes[b].op, self.nodes[c].op)
            for a, b in self.edges
            for c in readers.get(b, ())
        }

    def vertices(self) -> set[str]:
        """The `vertex` of every node."""
        return {node.vertex for node in self.nodes}

    def attribute_values(self) -> set[str]:
        """Operators with input dtypes, alone and combined with each attribute's class."""
        heads = [(f"{node.op}({node.dtypes})", node.attributes) for node in self.nodes]
        plain = {head for head, _ in heads}
        return plain | {f"{head} {text}" for head, every in heads for text in every}


def features(graph: GraphView) -> Features:
    """The features of a graph, generated or imported."""
    types = {v.name: (v.dtype, v.shape, "x".join(map(str, v.shape))) for v in graph.values}
    nodes = tuple([_node(node, [types[name] for name in node.inputs]) for node in graph.nodes])
    return Features(nodes, tuple(dict.fromkeys(_edges(graph.nodes))))


def value_class(value: Any) -> str:
    """The class of an attribute's value.

    Text, a bool or a dtype is its own class. A number is "negative", 0, 1 or "more", since sizes
    have too many values. A list has the classes of its least and greatest element.
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


def _node(node: NodeView, inputs: Sequence[tuple[str, tuple[int | str, ...], str]]) -> NodeFeatures:
    """inputs: dtype and shape of each, and the shape as text."""
    whole = _SORTED_JSON([node.op, dict(node.attributes), [own[:2] for own in inputs]])
    return NodeFeatures(
        node.op,
        ",".join([dtype for dtype, _, _ in inputs]),
        f"{zlib.crc32(whole.encode()):08x}",
        ",".join([text for _, _, text in inputs]),
        tuple([f"{name}={value_class(value)}" for name, value in node.attributes.items()]),
    )


def _edges(nodes: Iterable[NodeView]) -> Iterator[tuple[int, int]]:
    made: dict[str, int] = {}
    for place, node in enumerate(nodes):
        yield from ((made[name], place) for name in node.inputs if name in made)
        made.update(dict.fromkeys(node.outputs, place))
