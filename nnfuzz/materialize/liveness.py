"""Removes the nodes and weights of a model that no output depends on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from nnfuzz.materialize.walk import reads

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto


def keep_only(
    graph: GraphProto, outputs: Iterable[ValueInfoProto], given: Collection[str] = ()
) -> set[str]:
    """Gives a graph these outputs, and removes nodes, initializers and declarations that compute
    nothing for them that is not given. Returns the names of the values that are needed.

    Before IR version 4 each initializer is an input as well, and both are removed together.
    """
    outputs, kept = list(outputs), []
    needed = {output.name for output in outputs}
    for node in reversed(graph.node):
        if not needed.difference(given).isdisjoint(filter(None, node.output)):
            kept.append(node)
            needed.update(reads(node))
    gone = {tensor.name for tensor in graph.initializer} - needed.difference(given)
    inputs = [value for value in graph.input if value.name not in gone - {*given}]
    held = [tensor for tensor in graph.initializer if tensor.name in needed.difference(given)]
    types = [value for value in graph.value_info if value.name in needed]
    del graph.output[:], graph.node[:], graph.initializer[:], graph.value_info[:], graph.input[:]
    graph.input.extend(inputs)
    graph.output.extend(outputs)
    graph.node.extend(reversed(kept))
    graph.initializer.extend(held)
    graph.value_info.extend(types)
    return needed


def without_dead_nodes(model: bytes) -> bytes:
    """A serialized ONNX model without nodes and initializers that no output needs. Operators are
    lowered with all of their outputs, read or not."""
    import onnx

    proto = onnx.load_model_from_string(model)
    keep_only(proto.graph, proto.graph.output)
    return proto.SerializeToString()
