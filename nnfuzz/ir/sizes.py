"""One graph in several calls: copies side by side that share their weights.

A compiled program is called once for each copy, with inputs of one size, or of several if the model
has a symbolic dimension, and must return what the copies compute. The copies form an ordinary
graph, so judging and reducing work unchanged. Values of copy K > 0 have the suffix "_atK"; weights
that all copies have share a name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from nnfuzz.ir.graph import Graph, GraphError, Node, Value
from nnfuzz.ir.view import GraphView

T = TypeVar("T")
MARK = "_at"


def at_size(name: str, copy: int) -> str:
    """The name that a value of the first copy has in another copy."""
    return f"{name}{MARK}{copy}" if copy else name


def name_and_copy(name: str) -> tuple[str, int]:
    """Splits a value's name into its name in the first copy and the number of its copy."""
    stem, _, copy = name.rpartition(MARK)
    return (stem, int(copy)) if stem and copy.isdigit() else (name, 0)


def join_copies(copies: Sequence[Graph], shared: Collection[str] | None = None) -> Graph:
    """Copies of one graph, perhaps at several sizes, merged into one graph. Raises: GraphError if
    they have different inputs (shapes aside) or weights.

    shared: weights that are the same in all copies, by default all; others get a suffix.
    """
    first = copies[0]
    whole = Graph(prescribed=dict(first.prescribed))
    own = {*(first.weights if shared is None else shared)}
    for k, graph in enumerate(copies):
        if graph.inputs != first.inputs or (shared is None and graph.weights != first.weights):
            raise GraphError("the copies have different inputs or weights")
        names = {n: n if n in own else at_size(n, k) for n in graph.values}
        whole.weights = list(dict.fromkeys([*whole.weights, *(names[n] for n in graph.weights)]))
        for name, value in graph.values.items():
            same = whole.values.setdefault(names[name], Value(names[name], value.type))
            if not same.type.same(value.type):
                raise GraphError(f"the weight {name} is {same.type!r} and {value.type!r}")
        whole.nodes += [with_renamed_values(node, names) for node in graph.nodes]
        whole.inputs += [names[name] for name in graph.inputs]
        whole.outputs += [names[name] for name in graph.outputs]
    return whole


def with_renamed_values(node: Node, names: Mapping[str, str]) -> Node:
    """The node with its inputs and outputs renamed."""
    inputs, outputs = (tuple(names[n] for n in ns) for ns in (node.inputs, node.outputs))
    return Node(node.op, inputs, outputs)


def copies(graph: Graph) -> list[Graph]:
    """Inverse of `join_copies`; a graph without copies is returned alone."""
    count = 1 + max((name_and_copy(name)[1] for name in graph.values), default=0)
    graphs = [
        Graph(weights=list(graph.weights), prescribed=dict(graph.prescribed)) for _ in range(count)
    ]
    weights = {*graph.weights}
    plain = {n: n if n in weights else name_and_copy(n)[0] for n in graph.values}
    for name, value in graph.values.items():
        for copy in graphs if name in weights else [graphs[name_and_copy(name)[1]]]:
            copy.values[plain[name]] = Value(plain[name], value.type)
    for node in graph.nodes:
        graphs[name_and_copy(node.outputs[0])[1]].nodes.append(with_renamed_values(node, plain))
    for attribute in ("inputs", "outputs"):
        for name in getattr(graph, attribute):
            getattr(graphs[name_and_copy(name)[1]], attribute).append(plain[name])
    return graphs


def by_copy(arrays: Mapping[str, T]) -> list[dict[str, T]]:
    """A mapping by value name, split into one mapping per copy with the first copy's names."""
    return [in_call(arrays, k) for k in sorted({0, *(name_and_copy(name)[1] for name in arrays)})]


def in_call(arrays: Mapping[str, T], copy: int) -> dict[str, T]:
    """The part of a mapping by value name that belongs to one copy, with the first copy's names."""
    named = ((*name_and_copy(name), item) for name, item in arrays.items())
    return {stem: item for stem, number, item in named if number == copy}


def from_copies(parts: Iterable[Mapping[str, T]]) -> dict[str, T]:
    """Inverse of `by_copy`."""
    return {at_size(name, k): item for k, part in enumerate(parts) for name, item in part.items()}


def in_first_equal_call(
    names: Iterable[str], calls: Iterable[Mapping[str, np.ndarray]]
) -> dict[str, str]:
    """By the name of a value, its name in the first call that has the same inputs, bit for bit.

    calls: their inputs, by the names of the first copy.
    """
    known: dict[tuple[object, ...], int] = {}
    first = [
        known.setdefault(tuple((n, a.dtype, a.shape, a.tobytes()) for n, a in part.items()), k)
        for k, part in enumerate(calls)
    ]
    return {n: at_size(stem, first[k]) for n in names for stem, k in [name_and_copy(n)]}


def same_model(one: Graph, other: Graph) -> bool:
    """Whether two copies have the same sizes, and so the same model."""
    types = all(one.type(name).same(other.type(name)) for name in one.values)
    return types and [node.op for node in one.nodes] == [node.op for node in other.nodes]


def of_call(graph: GraphView, copy: int) -> GraphView:
    """The graph of one copy alone, with the names of the first one."""
    own = {name: name for name in graph.weights}
    for stem, number, name in ((*name_and_copy(v.name), v.name) for v in graph.values):
        if number == copy:
            own.setdefault(name, stem)

    def kept(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(own[name] for name in names if name in own)

    return replace(
        graph,
        values=tuple(replace(v, name=own[v.name]) for v in graph.values if v.name in own),
        nodes=tuple(
            replace(node, inputs=kept(node.inputs), outputs=kept(node.outputs))
            for node in graph.nodes
            if node.outputs[0] in own
        ),
        inputs=kept(graph.inputs),
        outputs=kept(graph.outputs),
    )


def at_one_size(graph: GraphView) -> bool:
    """Whether all copies are of the same sizes."""
    shapes = {value.name: value.shape for value in graph.values}
    return all(s == shapes.get(name_and_copy(name)[0], s) for name, s in shapes.items())


def operators(graph: GraphView) -> int:
    """Number of nodes in one copy."""
    return sum(not name_and_copy(node.outputs[0])[1] for node in graph.nodes)
