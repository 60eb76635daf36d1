"""The oldest opset at which a model says the same."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import defs

from nnfuzz.materialize.older import WHOLE
from nnfuzz.materialize.protos import ir_version


def at_oldest_opset(model: bytes) -> bytes:
    """The model, declared for the oldest opset at which all of its operators have the schemas that
    they have now, and for the IR version that goes with it, so that old compilers read it.

    What has operators of other domains or functions stays as it is.
    """
    proto = onnx.load_model_from_string(model)
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    if opsets.keys() - {"", "ai.onnx"} or proto.functions:
        return model
    newest = max(opsets.values())
    since = [defs.get_schema(name, newest, "").since_version for name in _operators(proto.graph)]
    oldest = max(WHOLE, *since)
    if oldest >= newest:
        return model
    del proto.opset_import[:]
    proto.opset_import.add(domain="", version=oldest)
    proto.ir_version = ir_version(oldest)
    return proto.SerializeToString()


def _operators(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _operators(inner)
