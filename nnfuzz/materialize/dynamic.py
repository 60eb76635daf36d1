"""One model with symbolic dimensions for a graph at several sizes (nnfuzz.ir.sizes).

The copies are lowered one by one. Where they come out node for node and constant for constant the
same, the model is right at each of their sizes, and dimensions that differ can be left open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from nnfuzz.ir.graph import Graph
from nnfuzz.ir.sizes import copies
from nnfuzz.materialize.emit import emit_model
from nnfuzz.materialize.errors import MaterializeError


class SizeError(MaterializeError):
    """A graph whose lowering depends on the size, so that no model is right at several of them."""


def emit_dynamic(graph: Graph, weights: Mapping[str, np.ndarray], opset: int) -> onnx.ModelProto:
    """The model for all copies in a graph, with the names of the first one.

    Dimensions that are the same at every size share a symbol.
    Raises: SizeError if the lowering depends on the size, or no dimension of an input does.
    """
    parts = copies(graph)
    models = [emit_model(part, weights, opset) for part in parts]
    for model in models[1:]:
        _same(models[0].graph, model.graph)
    symbols: dict[tuple[int, ...], str] = {}
    _open(models[0].graph.input, parts, symbols)
    if not symbols:
        raise SizeError("no dimension of an input differs between the sizes")
    _open(models[0].graph.output, parts, symbols)
    _open(models[0].graph.value_info, parts, symbols)
    return models[0]


def _same(one: onnx.GraphProto, other: onnx.GraphProto) -> None:
    for a, b in zip(one.node, other.node):
        if a != b:
            raise SizeError(f"the lowering depends on the size: {a.name}")
    constants = [t.SerializeToString() for t in one.initializer]
    if constants != [t.SerializeToString() for t in other.initializer]:
        raise SizeError("a constant depends on the size")
    if len(one.node) != len(other.node):
        raise SizeError("the number of nodes depends on the size")


def _open(
    declared: Sequence[onnx.ValueInfoProto],
    parts: Sequence[Graph],
    symbols: dict[tuple[int, ...], str],
) -> None:
    """Replace the sizes that differ between the parts by symbols."""
    for value in declared:
        shapes = [part.type(value.name).shape for part in parts]
        for dim, sizes in zip(value.type.tensor_type.shape.dim, zip(*shapes)):
            if len(set(sizes)) > 1:
                dim.dim_param = symbols.setdefault(sizes, f"n{len(symbols)}")
