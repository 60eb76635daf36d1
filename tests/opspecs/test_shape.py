from __future__ import annotations

import random

import pytest
import torch
from nnfuzz.opspecs.join import Concat, Split, Tile
from nnfuzz.opspecs.shape import Expand, Flatten, Reshape, Squeeze, Unsqueeze

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import BoolExpr, Var
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.shape import same_product
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t

A, B, C = Var("a", 1, 64), Var("b", 1, 64), Var("c", 1, 64)


def test_common_factors_cancel():
    assert same_product((A, B, C), (A * B, C)) is True
    assert same_product((A, 2, B, A), (A * A * B, 2)) is True
    left = same_product((A, B, C), (A, B, 3, A))
    assert isinstance(left, BoolExpr) and left.args[0] is C


def test_merging_reshapes_need_no_solver():
    draw = Draw(random.Random(0))
    free = 0
    for _ in range(200):
        first = draw.tensor(DType.FLOAT32, draw.integer(1, 4))
        free += all(c is True for c in Reshape.draw(draw, first).requires(first))
    assert free > 25


def test_reshape_counts_elements():
    Reshape(shape=(4, 3), inferred=-1).check(t(2, 6))
    with pytest.raises(ConstraintError):
        Reshape(shape=(4, 4), inferred=-1).check(t(2, 6))


def test_expand_goes_both_ways():
    op = Expand(shape=(2, 1, 4))
    op.check(t(3, 1))
    assert op.type_transfer(t(3, 1))[0].same(t(2, 3, 4))
    assert torch.equal(op.torch(ramp(3, 1)), ramp(3, 1).broadcast_to(2, 3, 4))
    with pytest.raises(ConstraintError):
        op.check(t(3, 2))
    with pytest.raises(ConstraintError):
        Expand(shape=(4, -1)).check(t(1))


def test_a_size_of_0_is_the_broadcast_of_0_and_1():
    op = Expand(shape=(4, 0))
    op.check(t(1))
    assert op.type_transfer(t(1))[0].same(t(4, 0))
    assert op.torch(ramp(1)).shape == (4, 0)
    with pytest.raises(ConstraintError):
        op.check(t(3))


@pytest.mark.parametrize(
    ("shape", "allowzero", "admitted"),
    [((0, 4), 0, True), ((4, 0), 0, False), ((4, 0), 1, True), ((2, 0), 1, True)],
)
def test_without_allowzero_a_0_copies_a_size(shape, allowzero, admitted):
    op = Reshape(shape=shape, inferred=-1, allowzero=allowzero)
    if admitted:
        op.check(t(0, 4))
        assert op.torch(ramp(0, 4)).shape == shape
    else:
        with pytest.raises(ConstraintError):
            op.check(t(0, 4))
    assert bool(op.refusal("direct", 13, t(0, 4))) == bool(allowzero)
    assert not op.refusal("direct", 14, t(0, 4))


def test_squeeze_needs_ones():
    op = Squeeze(axes=(-1, 0))
    op.check(t(1, 3, 1))
    assert op.torch(ramp(1, 3, 1)).shape == (3,)
    with pytest.raises(ConstraintError):
        op.check(t(1, 3, 2))


def test_unsqueeze_names_axes_of_the_result():
    op = Unsqueeze(axes=(-1, 1))
    assert op.type_transfer(t(2, 3))[0].same(t(2, 1, 3, 1))
    assert op.torch(ramp(2, 3)).shape == (2, 1, 3, 1)


@pytest.mark.parametrize(("axis", "shape"), [(0, (1, 24)), (-1, (6, 4)), (3, (24, 1))])
def test_flatten(axis, shape):
    assert Flatten(axis=axis).type_transfer(t(2, 3, 4))[0].same(t(*shape))
    assert Flatten(axis=axis).torch(ramp(2, 3, 4)).shape == shape


def test_split_undoes_concat():
    parts = [ramp(2, n) for n in (1, 4, 2)]
    joined = Concat(axis=-1).torch(*parts)
    op = Split(axis=1, split=(1, 4, 2))
    op.check(t(2, 7))
    assert all(torch.equal(a, b) for a, b in zip(op.torch(joined), parts))
    with pytest.raises(ConstraintError):
        op.check(t(2, 8))


def test_split_backward_takes_the_output_as_its_first_part():
    draw = Draw(random.Random(4))
    output = draw.tensor(DType.FLOAT32, 3)
    op = Split.draw_backward(draw, draw.tensor(DType.FLOAT32, 3), output)
    (x,) = op.infer_input_types(draw, output, [DType.FLOAT32], output)
    axis = op.axis % 3
    assert [d is o for d, o in zip(x.shape, output.shape)] == [i != axis for i in range(3)]


@pytest.mark.parametrize("spec", [Reshape, Expand, Flatten, Tile, Squeeze, Unsqueeze])
@pytest.mark.parametrize("dtype", [DType.BOOL, DType.FLOAT64, DType.UINT8])
def test_any_type_may_move(spec, dtype):
    for op, types in solved(spec, dtype, 15):
        x = torch.ones(types[0].shape).to(dtype.torch)
        y = op.torch(x)
        assert y.dtype is x.dtype and tuple(y.shape) == op.type_transfer(*types)[0].shape
