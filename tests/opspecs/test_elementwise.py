"""Elementwise operators, bits, constants and shapes."""

from __future__ import annotations

import math
import random

import pytest
import torch
from nnfuzz.opspecs.bitwise import BitShift
from nnfuzz.opspecs.cast import BitCast
from nnfuzz.opspecs.constant import (
    Constant,
    ConstantOfShape,
    Size,
)
from nnfuzz.opspecs.join import Split
from nnfuzz.opspecs.rectifiers import Shrink, ThresholdedRelu
from nnfuzz.opspecs.scan import CumProd
from nnfuzz.opspecs.shape import Reshape

from nnfuzz.check import runtimes as references
from nnfuzz.check.instances import OpInstance
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import BoolExpr, Var
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.shape import same_product
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.inputs.graphs import REGISTRY
from tests.opspecs.samples import lowered, ramp, t


def op(name, **attributes):
    return REGISTRY.get(name)(**attributes)


def test_the_quotient_of_mod_may_round_to_an_integer():
    """0.3 / 0.1 is less than 3, and 3 in float32; then the remainder is 0, not nearly 0.1."""
    for x, y in ((0.3, 0.1), (-0.3, 0.1), (7.5, -2.0), (-1e-9, 5.0), (6.0, 2.0)):
        a, b = torch.tensor([x, 1.0]), torch.tensor([y, 3.0])
        written = a - torch.floor(a / b) * b
        exact = op("Mod", fmod=0).torch(a.double(), b.double())
        radius = op("Mod", fmod=0).radius(2**-24, exact, a.double(), b.double())
        assert ((written - exact).abs() <= radius).all()
        assert radius[1] < 1e-6
    assert lowered(op("Mod", fmod=0), 21, t(2), t(2)) == ["Div", "Floor", "Mul", "Sub"]


def test_the_quotient_of_mod_may_be_the_product_with_a_reciprocal():
    """122 / 61 is 2; 122 * (1 / 61) is less in bfloat16, and the remainder is 61. By powers of two
    every quotient is exact."""
    a, b = torch.tensor([122.0, 24.0, 0.0]), torch.tensor([61.0, 8.0, 61.0])
    half = [t.bfloat16() for t in (a, b)]
    written = half[0] - torch.floor(half[0] * half[1].reciprocal()) * half[1]
    exact = op("Mod", fmod=0).torch(a.double(), b.double())
    radius = op("Mod", fmod=0).radius(2**-8, exact, a.double(), b.double())
    assert exact.tolist() == [0, 0, 0]
    assert ((written - exact).abs() <= radius).all()
    assert written.tolist() == [61.0, 0.0, 0.0]
    assert radius[0] >= 61
    assert (radius[1:] < 2).all()


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("Log", [-1.0], [0.5]),
        ("Sqrt", [-1.0], [0.0]),
        ("Exp", [90.0], [80.0]),
        ("Asin", [1.5], [1.0]),
        ("Reciprocal", [0.0], [0.1]),
        ("Tan", [math.pi / 2], [1.0]),
    ],
)
def test_domains_tell_where_numbers_fail(name, bad, good):
    for values, inside in ((bad, False), (good, True)):
        terms = op(name).domain(torch.tensor(values))
        assert all(bool((t <= 0).all()) for t in terms) is inside


def test_integer_division_keeps_off_zero_and_off_the_quotient_that_overflows():
    terms = op("Div").domain(
        torch.tensor([1, -128, -128, 5], dtype=torch.int8),
        torch.tensor([0, -1, 1, 2], dtype=torch.int8),
    )
    assert [max(t[i].item() for t in terms) > 0 for i in range(4)] == [True, True, False, False]


def test_ranges_refuse_what_can_not_work():
    below, sine = (-math.inf, -1.0), op("Sin").value_range((-math.inf, math.inf))
    assert not op("Sqrt").feasible(below)
    assert not op("Log").feasible(op("Neg").value_range((0.0, math.inf)))
    assert sine == (-1, 1) and op("Asin").feasible(sine)
    assert op("Exp").value_range((-math.inf, 0.0)) == (0.0, 1.0)
    assert not op("Cast", to=DType.INT8).feasible((300.0, math.inf))


def test_margins_measure_the_way_to_the_next_step():
    x = torch.tensor([0.25, 1.5, -0.9])
    assert torch.allclose(op("Floor").margins(x)[0], torch.tensor([0.25, 0.5, 0.1]))
    assert torch.allclose(op("Round").margins(x)[0], torch.tensor([0.25, 0.0, 0.4]))
    cast = op("Cast", to=DType.INT32).margins(x)[0]
    assert torch.allclose(cast, torch.tensor([0.75, 0.5, 0.1]))
    assert op("Equal").margins(torch.tensor([1]), torch.tensor([2])) == []


def test_lowering_follows_the_opset():
    small = [t(2, dtype=DType.INT8)] * 2
    assert lowered(op("Add"), 14, *small) == ["Add"]
    assert lowered(op("Add"), 13, *small) == ["Cast", "Cast", "Add", "Cast"]
    gelu = op("Gelu", approximate="tanh")
    assert lowered(gelu, 20, t(2)) == ["Gelu"]
    assert "Tanh" in lowered(gelu, 19, t(2))
    assert lowered(op("Relu"), 13, t(2, dtype=DType.INT16)) == ["Max"]


def test_clip_omits_an_absent_bound():
    instance = OpInstance(op("Clip", min=None, max=3), (TensorType(DType.INT32, (2,)),))
    model = references.one_node(instance, instance.types, 20)
    assert list(model.graph.node[0].input)[:2] == ["x0", ""]


def test_the_slope_of_prelu_broadcasts_one_way_only():
    x, wide = TensorType(DType.FLOAT32, (1,)), TensorType(DType.FLOAT32, (4,))
    op("PRelu").check(wide, x)
    with pytest.raises(ConstraintError, match="PRelu does not admit"):
        op("PRelu").check(x, wide)


def test_float_attributes_mean_the_float32_that_onnx_stores():
    y = op("LeakyRelu", alpha=0.1).torch(torch.tensor([-1.0], dtype=torch.float64))
    assert y.item() == -0.10000000149011612


@pytest.mark.parametrize("name", ["Div", "Mod"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_undefined_quotients_of_integers_neither_raise_nor_kill(name, dtype):
    """PyTorch raises for a divisor of 0, and dies (SIGFPE) of the least integer by -1."""
    least = torch.iinfo(dtype).min
    x, y = torch.tensor([7, least, 7, -7], dtype=dtype), torch.tensor([0, -1, 2, 2], dtype=dtype)
    divided = op(name, **({"fmod": 0} if name == "Mod" else {}))
    assert divided.torch(x, y)[2:].tolist() == ([3, -3] if name == "Div" else [1, 1])
    intervals = Interval(x, x), Interval(y, y)
    assert divided.undefined(*intervals).tolist() == [True, True, False, False]
    assert len(divided.interval(*intervals)) == 1


def test_powers_of_integers_are_truncated_and_undefined_where_they_do_not_fit():
    power, x = op("Pow"), torch.tensor([4, 5, 9], dtype=torch.int32)
    y = torch.tensor([0.5, 0.5, 1.5])
    assert power.torch(x, y).tolist() == [2, 2, 27]
    (near,) = power.decided(2.0**-24, *(Interval(v, v) for v in (x, y.double())))
    assert (near.lo == near.hi).tolist() == [False, True, False]
    huge = torch.tensor([50, -2, 2], dtype=torch.int32)
    powers = torch.tensor([9, 3, -1])
    lost = power.undefined(*(Interval(v, v) for v in (huge, powers)))
    assert lost.tolist() == [True, False, True]
    assert bool((power.domain(huge, powers)[0] > 0).equal(lost))


# Bits, casts and running products.


def test_shifts_fill_with_zeros_and_stay_below_the_width():
    x, y = torch.tensor([255, 1], dtype=torch.uint8), torch.tensor([7, 7], dtype=torch.uint8)
    assert BitShift(direction="LEFT").torch(x, y).tolist() == [128, 128]
    assert BitShift(direction="RIGHT").torch(x, y).tolist() == [1, 0]
    most = torch.tensor([-1, -1])  # 2^64 - 1 in its carrier.
    assert BitShift(direction="RIGHT").torch(most, torch.tensor([63, 0])).tolist() == [1, -1]
    types = t(2, dtype=DType.UINT8), t(2, dtype=DType.UINT8)
    assert BitShift(direction="LEFT").integer_range(*types)[1] == (0, 7)


def test_bits_of_a_float_are_kept_whatever_carries_it():
    op = BitCast(source=DType.FLOAT32, to=DType.INT32)
    for x in (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64)):
        assert op.torch(x).tolist() == [0x3F800000]
    with pytest.raises(ConstraintError):
        BitCast(source=DType.FLOAT32, to=DType.INT64).check(t(2))
    assert all(a.itemsize == out.itemsize for (a,), out in _bindings(BitCast))


def _bindings(spec):
    return [(tuple(binding.values()), out) for binding, out in spec.signatures()]


def test_the_sign_of_a_running_product_opens_where_a_factor_s_does():
    interval = Interval(
        torch.tensor([2.0, -1.0, 1.0]).double(), torch.tensor([2.0, 1.0, 3.0]).double()
    )
    (found,) = CumProd(axis=0, exclusive=0, reverse=0).interval(interval)
    assert (found.lo.tolist(), found.hi.tolist()) == ([2, -2, -6], [2, 2, 6])


def test_jumps_are_inside_of_the_intervals_of_shrink_and_thresholded_relu():
    interval = Interval(torch.tensor([0.5, -2.0]).double(), torch.tensor([1.5, 2.0]).double())
    (found,) = Shrink(lambd=1.0, bias=2.0).interval(interval)
    assert (found.lo.tolist(), found.hi.tolist()) == ([-1, -1], [0, 1])
    (found,) = ThresholdedRelu(alpha=1.0).interval(interval)
    assert (found.lo.tolist(), found.hi.tolist()) == ([0, 0], [1.5, 2])
    assert Shrink(lambd=1.0, bias=2.0).value_range((-math.inf, 0.5)) == (-math.inf, 1.0)


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


def test_split_backward_takes_the_output_as_its_first_part():
    draw = Draw(random.Random(4))
    output = draw.tensor(DType.FLOAT32, 3)
    op = Split.draw_backward(draw, draw.tensor(DType.FLOAT32, 3), output)
    (x,) = op.infer_input_types(draw, output, [DType.FLOAT32], output)
    axis = op.axis % 3
    assert [d is o for d, o in zip(x.shape, output.shape)] == [i != axis for i in range(3)]


X = ramp(2, 3, 4)


def test_the_values_of_the_input_do_not_matter():
    unknown = Interval(X, X + 9, torch.ones_like(X, dtype=torch.bool))
    for op in (
        ConstantOfShape(dtype=DType.INT8, number=7, source="computed"),
        Constant(seed=3, style="list"),
        Size(),
    ):
        (interval,) = op.interval(unknown)
        assert interval.exact and interval.any is None


def test_constants_fit_every_dtype():
    op = Constant(seed=1, style="tensor")
    assert op.torch(X).min() < 0 <= op.torch(X.byte()).min()
    assert op.torch(X.bool()).dtype is torch.bool
