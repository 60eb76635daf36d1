"""Scores that a mask of -inf leaves out of a softmax."""

from __future__ import annotations

import numpy as np

from nnfuzz.backend.target import Target
from nnfuzz.compare.edges import enveloped_at_edges
from nnfuzz.compare.verdict import judge
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry

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


def masked_by_numbers(scale: float) -> tuple[Graph, dict[str, np.ndarray]]:
    """Softmax(Cast(a @ b + mask)) of scores of about `scale`, with the least float32 as mask."""
    kind = TensorType(DType.FLOAT32, (3, 3))
    nodes = [
        Node(REGISTRY.get("MatMul")(), ("a", "b"), ("s",)),
        Node(REGISTRY.get("Add")(), ("s", "mask"), ("m",)),
        Node(REGISTRY.get("Softmax")(axis=-1), ("m",), ("y",)),
    ]
    values = {name: Value(name, kind) for name in ("a", "b", "mask", "s", "m", "y")}
    least = np.finfo(np.float32).min
    mask = np.array([[0, least, least], [0, 0, least], [0, 0, 0]], np.float32)
    a = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    inputs = {"a": a, "b": np.float32(scale) * a.T, "mask": mask}
    return Graph(values, nodes, ["a", "b", "mask"], [], ["m", "y"]), inputs


def test_the_least_number_as_a_mask_absorbs_scores_and_does_not_overflow():
    bounds = enveloped_at_edges(*masked_by_numbers(1.0)).envelopes
    assert all(bounds[name].comparable.all() for name in ("m", "y"))
    assert bounds["m"].lo[0, 1] == bounds["m"].hi[0, 1] == np.finfo(np.float32).min
    assert (bounds["y"].hi - bounds["y"].lo).max() < 1e-5


def test_scores_that_take_part_in_such_a_sum_may_overflow():
    bounds = enveloped_at_edges(*masked_by_numbers(1e32)).envelopes
    assert not bounds["m"].comparable[0, 1] and bounds["m"].comparable[2].all()


def test_a_cast_keeps_the_infinities_of_a_mask_and_a_maximum_leaves_them_out():
    kind, narrow = (TensorType(d, (2, 3)) for d in (DType.FLOAT32, DType.FLOAT16))
    most = TensorType(DType.FLOAT16, (2,))
    nodes = [
        Node(REGISTRY.get("Cast")(to=DType.FLOAT16), ("x",), ("c",)),
        Node(REGISTRY.get("ReduceMax")(axes=(1,), keepdims=0), ("c",), ("y",)),
    ]
    values = {n: Value(n, t) for n, t in (("x", kind), ("c", narrow), ("y", most))}
    x = np.array([[1, -np.inf, np.nan], [2, -np.inf, -3]], np.float32)
    graph = Graph(values, nodes, ["x"], [], ["c", "y"])
    bounds = enveloped_at_edges(graph, {"x": x}).envelopes
    assert np.array_equal(bounds["c"].lo, x.astype(np.float64), equal_nan=True)
    assert bounds["c"].comparable.all()
    assert bounds["y"].comparable.all() and bounds["y"].lo[1] == 2
    assert np.isnan(bounds["y"].lo[0])
