from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from nnfuzz.ir.graph import Graph
from nnfuzz.ir.sizes import join_copies
from nnfuzz.materialize.dynamic import SizeError, emit_dynamic
from nnfuzz.materialize.exporters import all_exporters
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.materialize.opsets import DYNAMIC
from tests.inputs.graphs import FLOAT, build, op

WEIGHTS = {"w": np.arange(4, dtype=np.float32)}


def flat(rows: int, inferred: int) -> Graph:
    """relu(x) * w as a vector."""
    types = {"x": FLOAT.with_shape((rows, 4)), "w": FLOAT.with_shape((4,))}
    shape = op("Reshape", shape=(rows * 4,), inferred=inferred)
    nodes = [("v", op("Relu"), "x"), ("y", op("Mul"), ["v", "w"]), ("z", shape, ["y"])]
    return build(types, nodes, weights=["w"])


def dims(values) -> list[list]:
    return [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values]


def test_the_dimension_that_differs_is_open():
    model = emit_dynamic(join_copies([flat(3, 0), flat(5, 0)]), WEIGHTS, 20)
    onnx.checker.check_model(model, full_check=True)
    assert dims(model.graph.input) == [["n0", 4]]
    assert dims(model.graph.output) == [["n1"]]


def test_the_model_is_right_at_every_size():
    sizes = (3, 5, 1)
    whole = join_copies([flat(rows, 0) for rows in sizes])
    data = all_exporters()[DYNAMIC].export(whole, WEIGHTS, {}, 20)
    model = ReferenceEvaluator(onnx.load_from_string(data))
    rng = np.random.default_rng(random.Random(0).getrandbits(32))
    for rows in sizes:
        x = rng.standard_normal((rows, 4), np.float32)
        expected = execute(flat(rows, 0), tensors({"x": x, **WEIGHTS}))["z"]
        np.testing.assert_array_equal(model.run(None, {"x": x})[0], expected.numpy())


def test_a_size_in_a_constant_is_refused():
    with pytest.raises(SizeError, match="a constant depends on the size"):
        emit_dynamic(join_copies([flat(3, -1), flat(5, -1)]), WEIGHTS, 20)


def test_sizes_that_are_all_the_same_are_refused():
    with pytest.raises(SizeError, match="no dimension of an input differs"):
        emit_dynamic(join_copies([flat(3, 0), flat(3, 0)]), WEIGHTS, 20)


def test_other_operators_are_refused():
    other = build(
        {"x": FLOAT.with_shape((5, 4)), "w": FLOAT.with_shape((4,))},
        [("v", op("Abs"), "x"), ("y", op("Mul"), ["v", "w"])],
        weights=["w"],
    )
    one = build(
        {"x": FLOAT.with_shape((3, 4)), "w": FLOAT.with_shape((4,))},
        [("v", op("Relu"), "x"), ("y", op("Mul"), ["v", "w"])],
        weights=["w"],
    )
    with pytest.raises(SizeError, match="the lowering depends on the size"):
        emit_dynamic(join_copies([one, other]), WEIGHTS, 20)
