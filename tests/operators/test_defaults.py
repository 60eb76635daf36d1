"""What the contract and its families derive, so that specs need not say it."""

from __future__ import annotations

import math
import random

import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import Emitter
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()


def backward(op, first_rank, output):
    """(fresh first input, inferred inputs) of an operator in front of an output."""
    draw = Draw(random.Random(3))
    first = draw.tensor(output.dtype, first_rank)
    return first, op.infer_input_types(draw, first, [output.dtype], output)


def test_axes_that_an_operator_leaves_alone_have_the_sizes_of_its_output():
    output = Draw(random.Random(1)).tensor(DType.FLOAT32, 3)
    tile = REGISTRY.get("Tile")(repeats=(1, 3, 1))
    first, (inferred,) = backward(tile, 3, output)
    assert inferred.shape[0] is output.shape[0] and inferred.shape[2] is output.shape[2]
    assert inferred.shape[1] is first.shape[1]


def test_an_operator_that_keeps_the_shape_takes_that_of_its_output():
    output = Draw(random.Random(1)).tensor(DType.INT32, 2)
    _, (inferred,) = backward(REGISTRY.get("Trilu")(k=0, upper=1), 2, output)
    assert inferred.dtype is DType.INT32
    assert all(a is b for a, b in zip(inferred.shape, output.shape, strict=True))


def test_vectors_of_channels_follow_the_inferred_first_input():
    draw = Draw(random.Random(2))
    output = draw.tensor(DType.FLOAT32, 3)
    op = REGISTRY.get("InstanceNormalization")(epsilon=1e-3)
    first = draw.tensor(DType.FLOAT32, 3)
    types = op.infer_input_types(draw, first, [DType.FLOAT32] * 3, output)
    assert all(a is b for a, b in zip(types[0].shape, output.shape, strict=True))
    assert all(len(t.shape) == 1 and t.shape[0] is output.shape[1] for t in types[1:])


@pytest.mark.parametrize(("name", "kept"), [("Tile", set()), ("Trilu", {"upper"})])
def test_attributes_that_onnx_takes_as_inputs_become_initializers(name, kept):
    attributes = {"Tile": {"repeats": (1, 2)}, "Trilu": {"k": -1, "upper": 0}}[name]
    emit = Emitter(20, {"x": TensorType(DType.FLOAT32, (2, 3))})
    REGISTRY.get(name)(**attributes).onnx(emit, "x")
    (node,) = emit.nodes
    (constant,) = emit.initializers
    assert list(node.input) == ["x", constant.name] and constant.data_type == DType.INT64.onnx
    assert {a.name for a in node.attribute} == kept


@pytest.mark.parametrize(
    ("name", "range_", "feasible"),
    [
        ("Tan", (-math.inf, math.inf), True),
        ("Tan", (1.5707, 1.5709), False),
        ("Tan", (0.3, 0.3), True),
        ("Reciprocal", (-1e-4, 1e-4), False),
        ("Reciprocal", (0.0, math.inf), True),
        ("Reciprocal", (-5.0, -5.0), True),
    ],
)
def test_poles_make_narrow_ranges_infeasible(name, range_, feasible):
    assert REGISTRY.get(name)().feasible(range_) is feasible


def test_results_do_not_leave_what_implementations_stay_within():
    assert REGISTRY.get("LogSoftmax")(axis=-1).value_range((-3.0, 3.0)) == (-math.inf, 0.0)
    assert REGISTRY.get("Cosh")().value_range((-1.0, 1.0)) == (1, math.inf)
