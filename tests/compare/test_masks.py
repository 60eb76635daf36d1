"""Scores that a mask of -inf leaves out of a softmax."""

from __future__ import annotations

import numpy as np

from nnfuzz.compare.edges import enveloped_at_edges
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.registry import OpRegistry

REGISTRY = OpRegistry.load()


def test_what_a_mask_leaves_out_has_no_weight_and_the_rest_is_compared():
    type_ = TensorType(DType.FLOAT32, (3, 3))
    nodes = [
        Node(REGISTRY.get("Add")(), ("x", "mask"), ("s",)),
        Node(REGISTRY.get("Softmax")(axis=-1), ("s",), ("y",)),
    ]
    values = {name: Value(name, type_) for name in ("x", "mask", "s", "y")}
    graph = Graph(values, nodes, ["x", "mask"], [], ["y"])
    mask = np.array([[0, -np.inf, -np.inf], [0, 0, -np.inf], [-np.inf] * 3], np.float32)
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    bounds = enveloped_at_edges(graph, {"x": x, "mask": mask})[0]["y"]
    assert bounds.comparable.tolist() == [[True] * 3, [True] * 3, [False] * 3]
    assert abs(bounds.lo[0] - [1, 0, 0]).max() < 1e-6
    assert (bounds.hi - bounds.lo)[:2].max() < 1e-5  # a wrong weight shows
