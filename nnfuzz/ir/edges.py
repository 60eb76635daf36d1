"""Edges between operators by name: the operators before and behind a value, and its dtype."""

from __future__ import annotations

from nnfuzz.ir.view import GraphView


def edge_key(producer: str, consumer: str, dtype: str) -> str:
    """The name of an edge, such as "Relu->Conv(float32)"."""
    return f"{producer}->{consumer}({dtype})"


def edge_keys(graph: GraphView) -> tuple[str, ...]:
    """The edges of a concrete graph, each once, in topological order."""
    dtypes = graph.dtypes
    makers = {name: node.op for node in graph.nodes for name in node.outputs}
    keys = (
        edge_key(makers[name], node.op, dtypes[name])
        for node in graph.nodes
        for name in node.inputs
        if name in makers
    )
    return tuple(dict.fromkeys(keys))
