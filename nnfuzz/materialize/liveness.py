"""Removes the nodes and weights of a model that no output depends on."""

from __future__ import annotations

from nnfuzz.materialize.walk import reads


def without_dead_nodes(model: bytes) -> bytes:
    """A serialized ONNX model without nodes and initializers that no output needs. Operators are
    lowered with all of their outputs, read or not. If nothing is dead, the bytes are the same."""
    import onnx

    proto = onnx.load_model_from_string(model)
    needed, kept = {output.name for output in proto.graph.output}, []
    for node in reversed(proto.graph.node):
        if not needed.isdisjoint(filter(None, node.output)):
            kept.append(node)
            needed.update(reads(node))
    if len(kept) == len(proto.graph.node):
        return model
    tensors = [tensor for tensor in proto.graph.initializer if tensor.name in needed]
    del proto.graph.node[:], proto.graph.initializer[:]
    proto.graph.node.extend(reversed(kept))
    proto.graph.initializer.extend(tensors)
    return proto.SerializeToString()
