"""Insertion inside a graph: an old node reads a new value in place of its former input."""

from __future__ import annotations

from collections.abc import Collection

from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.draw import Draw

CHANCE = 0.5
"""Probability that a new value is used at a place where it fits."""


def splice(graph: Graph, old: Collection[str], draw: Draw) -> int:
    """Let old nodes read new values of the same type; returns the number of changed inputs.

    old: names of the values that existed before. Changes the concrete graph; its nodes stay in
    topological order, and values without reader become outputs.
    """
    count = 0
    for at, node in enumerate(list(graph.nodes)):
        if node.outputs[0] not in old:
            continue
        for position, name in enumerate(node.inputs):
            if not draw.chance(CHANCE):
                continue
            options = _fitting(graph, graph.nodes[at], position, name, old)
            if options:
                _reconnect(graph, at, position, draw.choice(options))
                count += 1
    _sort(graph)
    return count


def _fitting(graph: Graph, node: Node, position: int, name: str, old: Collection[str]) -> list[str]:
    """New computed values that can replace an input without creating a cycle."""
    pattern = node.op.patterns(len(node.inputs))[position]
    if pattern.fresh or pattern.weight or name in graph.weights:
        return []
    if len(graph.consumers()[name]) == 1 and name in graph.inputs:
        return []  # an input that nothing reads
    behind = _descendants(graph, node)
    type_ = graph.type(name)
    return [
        value
        for other in graph.nodes
        for value in other.outputs
        if value not in old and value not in behind and graph.type(value).same(type_)
    ]


def _descendants(graph: Graph, node: Node) -> set[str]:
    found, readers, todo = set(node.outputs), graph.consumers(), list(node.outputs)
    while todo:
        for reader in readers[todo.pop()]:
            fresh = [name for name in reader.outputs if name not in found]
            found.update(fresh)
            todo += fresh
    return found


def _reconnect(graph: Graph, at: int, position: int, value: str) -> None:
    node = graph.nodes[at]
    lost = node.inputs[position]
    inputs = (*node.inputs[:position], value, *node.inputs[position + 1 :])
    graph.nodes[at] = Node(node.op, inputs, node.outputs)
    computed = lost not in graph.inputs and lost not in graph.weights
    if computed and not graph.consumers()[lost] and lost not in graph.outputs:
        graph.outputs.append(lost)


def _sort(graph: Graph) -> None:
    """Sort the nodes topologically, and change their order as little as possible."""
    done = {*graph.inputs, *graph.weights}
    left, ordered = list(graph.nodes), []
    while left:
        ready = next(node for node in left if done.issuperset(node.inputs))
        left.remove(ready)
        ordered.append(ready)
        done.update(ready.outputs)
    graph.nodes = ordered
