"""Iterates over an ONNX graph and the sub-graphs of its nodes. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nnfuzz.base.untrusted import bodies as bodies
from nnfuzz.ir.opset_imports import OWN_DOMAINS

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and all sub-graphs inside of it, at any depth."""
    yield graph
    for node in graph.node:
        for body in bodies(node):
            yield from graphs(body)


def qualified_name(node: NodeProto) -> str:
    """The name of a node's operator, as "DOMAIN.NAME" unless the domain is ONNX's own."""
    return node.op_type if node.domain in OWN_DOMAINS else f"{node.domain}.{node.op_type}"


def reads(node: NodeProto) -> list[str]:
    """All values that a node reads, including outer values that its sub-graphs read."""
    names = [name for name in node.input if name]
    for graph in bodies(node):
        own = {v.name for v in (*graph.input, *graph.initializer)}
        for inner in graph.node:
            names += [name for name in reads(inner) if name not in own]
            own.update(inner.output)
        names += [o.name for o in graph.output if o.name not in own]
    return list(dict.fromkeys(names))
