"""Scores that a mask of -inf leaves out of a softmax."""

from __future__ import annotations

import numpy as np

from nnfuzz.compare.edges import enveloped_at_edges
from nnfuzz.compare.verdict import judge
from nnfuzz.execute.target import Target
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.registry import OpRegistry

REGISTRY = OpRegistry.load()


def attention() -> tuple[Graph, dict[str, np.ndarray]]:
    """Softmax(x + mask), of which the mask leaves the last row empty."""
    type_ = TensorType(DType.FLOAT32, (3, 3))
    nodes = [
        Node(REGISTRY.get("Add")(), ("x", "mask"), ("s",)),
        Node(REGISTRY.get("Softmax")(axis=-1), ("s",), ("y",)),
    ]
    values = {name: Value(name, type_) for name in ("x", "mask", "s", "y")}
    mask = np.array([[0, -np.inf, -np.inf], [0, 0, -np.inf], [-np.inf] * 3], np.float32)
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    return Graph(values, nodes, ["x", "mask"], [], ["y"]), {"x": x, "mask": mask}


def test_what_a_mask_leaves_out_has_no_weight_and_the_rest_is_compared():
    bounds = enveloped_at_edges(*attention()).envelopes["y"]
    assert bounds.comparable.tolist() == [[True] * 3, [True] * 3, [False] * 3]
    assert abs(bounds.lo[0] - [1, 0, 0]).max() < 1e-6
    assert (bounds.hi - bounds.lo)[:2].max() < 1e-5  # a wrong weight shows


def test_judge_takes_the_envelope_at_edges_by_itself():
    graph, params = attention()
    scores = np.exp((params["x"] + params["mask"])[:2].astype(np.float64))
    good = np.full((3, 3), np.nan, np.float32)
    good[:2] = scores / scores.sum(axis=1, keepdims=True)
    bad = good.copy()
    bad[0] = [0.5, 0.5, 0]
    a, b = Target("good"), Target("bad")
    verdict = judge(graph, params, {a: {"y": good}, b: {"y": bad}})
    assert verdict.comparable == {"y": 6 / 9} and not verdict.mismatches[a]
    assert [m.wrong for m in verdict.mismatches[b]] == [2]
    assert [loss.operator for loss in verdict.losses["y"]] == ["Softmax"]
