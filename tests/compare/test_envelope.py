"""Envelopes contain what is legal."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from nnfuzz.backend.target import Target
from nnfuzz.check import instances, runtimes
from nnfuzz.check.instances import OpInstance
from nnfuzz.compare.edges import enveloped_at_edges
from nnfuzz.compare.envelope import Envelope, enveloped, envelopes, node_intervals
from nnfuzz.compare.reference import (
    PRECISIONS,
    is_single_integer,
    overflow_masked,
    reference,
    representable,
)
from nnfuzz.compare.verdict import compare, judge
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators import intervals, rounding
from nnfuzz.operators.carriers import settled
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.registry import OpRegistry


def around(x: Tensor, rng: random.Random) -> Interval:
    """An interval around a tensor; some elements stay exact, a few are masked now and then.

    Integers stay exact, booleans become open.
    """
    if x.is_floating_point():
        size = 10.0 ** rng.uniform(-6, 0.5)
        below, above = (size * torch.rand_like(x) * (torch.rand_like(x) < 0.7) for _ in range(2))
        interval = Interval(x - below, x + above)
    elif x.dtype is torch.bool:
        open_ = torch.rand(x.shape) < 0.2
        interval = Interval(x & ~open_, x | open_)
    else:
        interval = Interval(x, x)
    return interval.masked(torch.rand(x.shape) < 0.1) if rng.random() < 0.3 else interval


def inside(interval: Interval, corner: bool) -> Tensor:
    """A point of the interval, at random or in a corner; anything at all where it is masked."""
    if interval.lo.dtype is torch.bool:
        return torch.where(torch.rand(interval.lo.shape) < 0.5, interval.lo, interval.hi)
    if not interval.lo.is_floating_point():
        return interval.lo
    share = torch.rand_like(interval.lo)
    share = (share > 0.5).double() if corner else share
    x = (interval.lo + (interval.hi - interval.lo) * share).clamp(interval.lo, interval.hi)
    return x if interval.any is None else torch.where(interval.any, x + 10 * torch.randn_like(x), x)


F32 = np.float32


def only(graph, params) -> Envelope:
    """The envelope of the graph's only output."""
    return envelopes(graph, params)[graph.outputs[0]]


def width(e: Envelope) -> np.ndarray:
    return e.hi - e.lo


def test_floor_of_an_exact_sum_is_comparable(build):
    b = build(x=F32([1.5, 2.25]), y=F32([0.5, 0.75]))
    e = only(*b.done(b.add("Floor", b.add("Add", "x", "y"))))
    assert e.comparable.all()
    assert width(e).tolist() == [0, 0]


def test_floor_of_a_rounded_sum_is_an_interval(build):
    b = build(x=F32([0.1, 0.1]), y=F32([0.9, 0.2]))
    e = only(*b.done(b.add("Floor", b.add("Add", "x", "y"))))
    assert (e.lo.tolist(), e.hi.tolist()) == ([0, 0], [1, 0])


def test_rounding_errors_add_up(build):
    b = build(x=F32([0.1]), y=F32([0.7]))
    once = b.add("Mul", "x", "y")
    twice = b.add("Mul", once, "y")
    graph, params = b.done(once, twice)
    e = envelopes(graph, params)
    u = 2.0**-24
    assert width(e[once])[0] == pytest.approx(2 * u * 0.07, rel=1e-3)
    assert width(e[twice])[0] == pytest.approx(4 * u * 0.049, rel=1e-3)


def test_float64_doubles_the_error_for_its_own_reference(build):
    b = build(x=np.array([0.1]), y=np.array([0.7]))
    e = only(*b.done(b.add("Mul", "x", "y")))
    assert width(e)[0] == pytest.approx(4 * 2.0**-53 * 0.07, rel=0.2)


def test_integer_sums_are_exact_and_others_are_not(build):
    ones = np.ones((4, 8), F32)
    b = build(x=ones * 3, y=np.full((8, 2), 5, F32))
    assert (width(only(*b.done(b.add("MatMul", "x", "y")))) == 0).all()
    b = build(x=ones * F32(0.3), y=np.full((8, 2), 5, F32))
    assert (width(only(*b.done(b.add("MatMul", "x", "y")))) > 0).all()


def test_a_sum_of_integers_rounds_where_a_bias_or_a_factor_joins_it(build):
    x, y = F32([[1, 1]]), F32([[1], [-1]])
    for name, other in [("Add", -0.1), ("Sub", 0.1), ("Mul", 0.1), ("Div", 3), ("Sum", 0.1)]:
        b = build(x=x, y=y, c=F32([other]))
        product = b.add("MatMul", "x", "y")
        graph, params = b.done(product, b.add(name, product, "c"))
        e = envelopes(graph, params)
        assert (width(e[product]) == 0).all()
        assert (width(e[graph.outputs[1]]) > 0).all()
    # Gemm: (-0.1 + 1) - 1
    started = (F32(-0.1) + F32(1)) - F32(1)
    b = build(x=x, y=y, c=F32([-0.1]))
    e = only(*b.done(b.add("Add", b.add("MatMul", "x", "y"), "c")))
    assert e.lo[0, 0] <= started <= e.hi[0, 0]
    assert width(e)[0, 0] < 1e-6


def test_a_sum_of_integers_stays_exact_among_integers(build):
    b = build(x=F32([[1, 1]]), y=F32([[1], [1]]), c=F32([8]))
    product = b.add("MatMul", "x", "y")
    for name, operands in [
        ("Add", (product, "c")),
        ("Div", ("c", product)),
        ("Div", (product,) * 2),
    ]:
        e = only(*b.done(b.add(name, *operands)))
        assert (width(e) == 0).all(), name


def test_a_quotient_may_be_the_product_with_a_reciprocal(build):
    """6 / 3 may be 6 * 0.33333334, and its Floor is anybody's; 6 / 4 is exact in either way."""
    x, y = F32([6, 6, 0]), F32([3, 4, 3])
    b = build(x=x, y=y)
    quotient = b.add("Div", "x", "y")
    graph, params = b.done(quotient, b.add("Floor", quotient))
    e = envelopes(graph, params)
    assert e[quotient].lo[0] <= x[0] * (F32(1) / y[0]) <= e[quotient].hi[0]
    assert (width(e[quotient]) > 0).tolist() == [True, False, False]
    assert (width(e[graph.outputs[1]]) > 0).tolist() == [True, False, False]


def test_overflow_of_the_working_dtype_is_not_comparable(build):
    b = build(x=np.float16([300, 3]))
    e = only(*b.done(b.add("Mul", "x", "x")))
    assert e.any.tolist() == [True, False]
    b = build(x=F32([300, 3]))
    assert not only(*b.done(b.add("Mul", "x", "x"))).any.any()


def test_sums_that_may_overflow_on_the_way_are_not_comparable(build):
    b = build(x=np.float16([[60000, 60000, -60000]]))
    e = only(*b.done(b.add("ReduceSum", "x", axes=(1,), keepdims=0)))
    assert e.any.all()


def test_a_denominator_that_may_be_zero(build):
    b = build(x=F32([1, 1]), y=F32([0.1, 1]), z=F32([0.1, 2]))
    twice = b.add("Mul", b.add("Mul", "y", "y"), "z")
    again = b.add("Mul", "y", b.add("Mul", "y", "z"))
    e = only(*b.done(b.add("Div", "x", b.add("Sub", twice, again))))
    assert e.any.all()


def test_out_of_range_cast_is_undefined(build):
    b = build(x=F32([300, 255.5, -0.5, -1, 3]))
    e = only(*b.done(b.add("Cast", "x", to=DType.UINT8)))
    assert e.any.tolist() == [True, False, False, True, False]
    assert e.ref[[1, 2, 4]].tolist() == [255, 0, 3]


def test_what_depends_on_an_undefined_element_is_masked(build):
    b = build(x=F32([300, 3]))
    cast = b.add("Cast", "x", to=DType.UINT8)
    e = only(*b.done(b.add("ReduceMax", cast, axes=(0,), keepdims=1)))
    assert e.any.tolist() == [True]


def test_narrowing_cast_rounds_but_may_be_left_out(build):
    b = build(x=F32([0.1, 0.5]))
    e = only(*b.done(b.add("Cast", "x", to=DType.FLOAT16)))
    assert e.ref[0] == np.float64(np.float16(0.1))
    assert e.lo[0] <= np.float64(F32(0.1)) <= e.hi[0]
    assert width(e)[1] == 0


def test_a_cast_whose_rounding_is_left_out_keeps_what_it_would_lose(build):
    b = build(x=F32([2.0**-120, 0.0]))
    e = only(*b.done(b.add("Cast", b.add("Cast", "x", to=DType.FLOAT16), to=DType.FLOAT32)))
    assert e.ref.tolist() == [0.0, 0.0]
    assert e.lo[0] <= 0 and e.hi[0] >= 2.0**-120
    assert (e.lo[1], e.hi[1]) == (0.0, 0.0)


def test_integers_wrap_around(build):
    b = build(x=np.int8([100, -128]), y=np.int8([100, -1]))
    e = only(*b.done(b.add("Add", "x", "y")))
    assert e.ref.tolist() == [-56, 127]
    assert e.comparable.all()


def test_an_integer_sum_that_overflows_is_undefined(build):
    b = build(x=np.int32([[2**30, 2**30], [1, 2]]))
    e = only(*b.done(b.add("ReduceSum", "x", axes=(1,), keepdims=0)))
    assert e.any.tolist() == [True, False]


def test_argmax_spans_the_positions_that_may_win(build):
    b = build(x=F32([[0.3, 0.1, 0.3, 0.2], [1, 2, 3, 3]]), y=F32([[0.7], [1]]))
    e = only(*b.done(b.add("ArgMax", b.add("Mul", "x", "y"), axis=1, keepdims=0)))
    assert (e.lo.tolist(), e.hi.tolist()) == ([0, 2], [2, 2])
    assert e.comparable.tolist() == [False, True]


def test_comparison_of_overlapping_intervals_is_open_and_where_takes_both(build):
    b = build(x=F32([0.3, 0.3]), y=F32([0.7, 0.7]), z=F32([0.7, 0.8]))
    less = b.add("Less", b.add("Mul", "x", "y"), b.add("Mul", "x", "z"))
    chosen = b.add("Where", less, "x", "y")
    graph, params = b.done(less, chosen)
    e = envelopes(graph, params)
    assert e[less].comparable.tolist() == [False, True]
    assert e[chosen].lo == pytest.approx([0.3, 0.3])
    assert e[chosen].hi == pytest.approx([0.7, 0.3])


def test_equal_operands_vary_together(build):
    b = build(x=F32([0.3]), y=F32([0.7]))
    z = b.add("Mul", "x", "y")
    names = [b.add(op, z, z) for op in ("Sub", "Div", "Less", "Equal")]
    graph, params = b.done(*names)
    e = envelopes(graph, params)
    assert [e[n].ref.item() for n in names] == [0, 1, False, True]
    # fma(x, y, -z) is legal, and is what z - z becomes when the product is contracted into it.
    assert 0 < width(e[names[0]]).item() <= 2 * 2.0**-24 * 0.21 * 1.01
    assert width(e[names[1]]).item() <= 5 * 2.0**-24 * 1.01
    assert all(e[n].comparable.all() for n in names)


def test_range_and_sign_are_kept(build):
    b = build(x=F32([0, 1e-3, 0.5]), y=F32([0.1, 0.1, 0.1]))
    e = only(*b.done(b.add("Sqrt", b.add("Mul", "x", "y"))))
    assert not e.any.any()
    b = build(x=F32([1e-4, 0]))
    e = only(*b.done(b.add("Acos", b.add("Cos", "x"))))
    assert not e.any.any()
    b = build(x=F32([0.7, 0.7]), y=F32([1 / 0.7] * 2), one=F32([1]), two=F32([2]), eps=F32([1e-30]))
    power = b.add("Pow", b.add("Sub", b.add("Mul", "x", "y"), "one"), "two")
    mean = b.add("ReduceMean", power, axes=(0,), keepdims=1)
    e = only(*b.done(b.add("Reciprocal", b.add("Sqrt", b.add("Add", mean, "eps")))))
    assert not e.any.any()


def test_a_pole_of_tan_is_not_comparable(build):
    b = build(x=F32([1.5707964, 0.5]))
    assert only(*b.done(b.add("Tan", "x"))).any.tolist() == [True, False]


def test_params_are_not_written_to_and_may_be_read_only(build):
    x = F32([1.0, -2.0])
    x.setflags(write=False)
    b = build(x=x)
    graph, params = b.done(b.add("Relu", "x"))
    envelopes(graph, params)
    assert x.tolist() == [1.0, -2.0]


def test_results_far_below_the_working_dtype_may_all_be_zero(build):
    b = build(x=F32([[-731, -305, -104]]))
    e = only(*b.done(b.add("ArgMin", b.add("Exp", "x"), axis=1, keepdims=0)))
    assert (e.lo.tolist(), e.hi.tolist()) == ([0], [2])


def test_a_clip_that_may_or_may_not_clamp_may_return_its_rounded_bound(build):
    """The nearest float32 to -0.2 is below it."""
    b = build(x=F32([0.5e8, 0.5]), y=F32([0.7, 0.7]))
    e = only(*b.done(b.add("Clip", b.add("Cos", b.add("Mul", "x", "y")), min=-0.2, max=1.8)))
    assert e.lo[0] <= np.float32(-0.2) < np.float32(1) <= e.hi[0]
    assert width(e)[1] < 1e-5


def test_an_integer_divisor_that_overflow_decides_is_not_defined(build):
    def divided(least):
        b = build(x=np.array([[least], [-(2**40)]], np.int64), y=np.array([5], np.int64))
        graph, params = b.done(b.add("Div", "y", b.add("ReduceSum", "x", axes=(0,), keepdims=0)))
        return enveloped(graph, params).defined

    assert divided(2**41)
    assert not divided(-(2**63) + 1)


def test_an_integer_divisor_that_is_zero_for_certain_is_not_defined(build):
    b = build(x=np.array([5], np.int64), y=np.array([0], np.int64))
    assert not enveloped(*b.done(b.add("Div", "x", "y"))).defined
    b = build(x=np.array([5], np.int64), y=np.array([2], np.int64))
    assert enveloped(*b.done(b.add("Div", "x", "y"))).defined


# Combinators: what they return contains the function's values, and is tight where it can be.


def interval(lo, hi, mask=None) -> Interval:
    lo = torch.tensor(lo, dtype=torch.float64)
    hi = torch.tensor(hi, dtype=torch.float64)
    return Interval(lo, hi, None if mask is None else torch.tensor(mask))


def exact(values) -> Interval:
    values = torch.tensor(values, dtype=torch.float64)
    return Interval(values, values)


def ends(b: Interval) -> list[tuple[float, float]]:
    return list(zip(b.lo.reshape(-1).tolist(), b.hi.reshape(-1).tolist()))


def test_exact_intervals_stay_one_object():
    a = exact([1.0, -2.0])
    for found in (
        intervals.monotone(torch.exp, (1,), a),
        intervals.corners(torch.mul, a, exact([3.0, 4.0])),
        intervals.even(torch.abs, a),
        intervals.periodic(torch.sin, a, math.pi / 2),
        intervals.linear(torch.matmul, a, exact([3.0, 4.0]), weights=(0, 1)),
    ):
        assert found.exact
        assert found.any is None


def test_monotone_takes_each_end_by_its_sign():
    found = intervals.monotone(torch.sub, (1, -1), interval([1.0], [2.0]), interval([10.0], [20.0]))
    assert ends(found) == [(-19.0, -8.0)]


def test_corners_of_a_product_and_of_a_square():
    a, b = interval([-1.0, 2.0], [3.0, 4.0]), interval([-5.0, 5.0], [2.0, 6.0])
    assert ends(intervals.corners(torch.mul, a, b)) == [(-15.0, 6.0), (10.0, 24.0)]
    same = intervals.corners(torch.mul, a, a)
    assert ends(same)[1] == (4.0, 16.0)


def test_even_function_has_its_least_value_inside():
    found = intervals.even(torch.cosh, interval([-1.0, 1.0], [2.0, 2.0]), 1.0)
    assert ends(found)[0] == (1.0, math.cosh(2))
    assert ends(found)[1] == (math.cosh(1), math.cosh(2))


@pytest.mark.parametrize(
    ("lo", "hi", "expected"),
    [
        (0.0, 0.5, (0.0, math.sin(0.5))),
        (1.0, 2.0, (math.sin(1.0), 1.0)),
        (4.0, 5.0, (-1.0, math.sin(4.0))),
        (-10.0, 10.0, (-1.0, 1.0)),
    ],
)
def test_sine_knows_its_extrema(lo, hi, expected):
    found = intervals.periodic(torch.sin, interval([lo], [hi]), math.pi / 2)
    assert ends(found)[0] == pytest.approx(expected, abs=1e-15)


def test_linear_is_tight_for_a_single_uncertain_input():
    weights = exact([[1.0, -2.0], [0.5, 0.0]])
    x = interval([[1.0, 1.0]], [[2.0, 3.0]])
    found = intervals.linear(torch.matmul, x, weights, weights=(0, 1))
    assert found.lo.tolist() == [pytest.approx([1.5, -4.0], abs=1e-12)]
    assert found.hi.tolist() == [pytest.approx([3.5, -2.0], abs=1e-12)]


def test_linear_contains_products_of_uncertain_matrices():
    torch.manual_seed(0)
    a, b = torch.randn(3, 4).double(), torch.randn(4, 2).double()
    ra, rb = torch.rand(3, 4).double(), torch.rand(4, 2).double()
    found = intervals.linear(
        torch.matmul, Interval(a - ra, a + ra), Interval(b - rb, b + rb), weights=(0, 1)
    )
    for _ in range(50):
        x = a + ra * (torch.randint(0, 2, ra.shape) * 2 - 1)
        y = b + rb * (torch.randint(0, 2, rb.shape) * 2 - 1)
        assert bool(((x @ y >= found.lo) & (x @ y <= found.hi)).all())


def test_a_masked_factor_masks_even_where_the_other_one_is_zero():
    a = interval(
        [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]], [[True, False], [False, False]]
    )
    found = intervals.linear(torch.matmul, a, exact([[0.0], [1.0]]), weights=(0, 1))
    assert found.any.tolist() == [[True], [False]]


def test_a_masked_bias_masks_its_column_only():
    bias = interval([5.0, 6.0], [5.0, 6.0], [True, False])
    found = intervals.linear(
        lambda x, w, b: x @ w + b, exact([[1.0]]), exact([[2.0, 3.0]]), bias, weights=(0, 1)
    )
    assert found.any.tolist() == [[True, False]]


def test_uncertain_masks_numbers_and_opens_booleans():
    a = Interval(torch.tensor([1, 2]), torch.tensor([1, 3]))
    found = intervals.uncertain(torch.add, a, Interval(a.lo, a.lo))
    assert found.lo.tolist() == [2, 4]
    assert found.any.tolist() == [False, True]
    flags = Interval(torch.tensor([True, False]), torch.tensor([True, True]))
    other = torch.tensor([True, True])
    found = intervals.uncertain(torch.logical_xor, flags, Interval(other, other))
    assert (found.lo.tolist(), found.hi.tolist()) == ([False, False], [False, True])


def test_magnitudes_reach_zero_inside():
    least, most = interval([-1.0, 2.0], [3.0, 4.0]).magnitudes()
    assert (least.tolist(), most.tolist()) == ([0.0, 2.0], [3.0, 4.0])


def test_sum_radius_grows_with_the_terms_and_is_infinite_where_sums_overflow():
    u, s = 2.0**-11, torch.tensor([1.0, 70000.0], dtype=torch.float64)
    few, many = (rounding.sum_radius(u, k, s) for k in (2, 20))
    assert few[0] < many[0] < 32 * u
    assert math.isinf(many[1])
    assert rounding.sum_radius(u, 8, torch.zeros(1, dtype=torch.float64)).tolist() == [0.0]


def test_nothing_is_known_behind_an_operator_without_an_interval():
    from nnfuzz.operators.operator import OpSpec

    class Odd(OpSpec):
        def torch(self, x):
            return x.sum().reshape(1)

    (known,) = Odd().interval(exact([1.0, 2.0]))
    (unknown,) = Odd().interval(interval([1.0, 2.0], [1.0, 2.5]))
    assert known.any is None
    assert unknown.any.tolist() == [True]


# Scores that a mask of -inf leaves out of a softmax.


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


# Sums that begin with a bias: what a Gemm made of MatMul and Add may yield.


def test_every_step_of_a_sum_rounds_the_bias_it_begins_with(build):
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, 300).astype(F32)
    x = rng.uniform(-1e-3, 1e-3, (300, 60)).astype(F32)
    c = rng.uniform(500, 1000, 60).astype(F32)
    b = build(a=a, x=x, c=c)
    graph, params = b.done(b.add("Add", b.add("MatMul", "a", "x"), "c"))
    e = envelopes(graph, params)[graph.outputs[0]]
    begun = c.copy()
    for i in range(len(a)):
        begun += a[i] * x[i]
    far = np.abs(begun - e.ref) / (2.0**-24 * np.abs(e.ref))
    assert far.max() > 8  # more than the addition alone may cost
    assert ((begun >= e.lo) & (begun <= e.hi)).all()


def test_a_bias_that_is_larger_than_the_sum_does_not_begin_it(build):
    b = build(x=F32([[0.1, 0.2]]), y=F32([[0.3], [0.4]]), c=F32([500, 600]))
    product = b.add("MatMul", "x", "y")
    added, scaled = b.add("Add", product, "c"), b.add("Mul", product, "c")
    graph, params = b.done(added, scaled)
    found = envelopes(graph, params)
    for name in (added, scaled):
        e = found[name]
        assert ((e.hi - e.lo) / (2.0**-24 * np.abs(e.ref))).max() < 16


# Constants of working dtypes, and numbers that they hold.


HALF, DOUBLE = PRECISIONS[DType.FLOAT16], PRECISIONS[DType.FLOAT64]


def test_a_number_is_representable_if_no_bit_is_lost():
    y = torch.tensor([1.0, 1 + 2.0**-10, 1 + 2.0**-11, 0.0, 2.0**-40], dtype=torch.float64)
    assert representable(y, HALF, []).tolist() == [True, True, False, True, False]


def test_a_float64_result_is_representable_if_result_and_operands_fit_float32():
    third = torch.tensor([1 / 3], dtype=torch.float64)
    half = torch.tensor([0.5], dtype=torch.float64)
    assert representable(half, DOUBLE, [Interval(half, half)]).all()
    assert not representable(half, DOUBLE, [Interval(third, third)]).any()


def test_an_interval_is_a_single_integer_only_if_it_is_a_point():
    one, two = torch.ones(2), torch.full((2,), 2.0)
    assert is_single_integer(Interval(one, one))
    assert not is_single_integer(Interval(one, two)) and not is_single_integer(
        Interval(one / 2, one / 2)
    )


def test_elements_that_may_overflow_are_masked():
    ref = torch.tensor([1.0, 65504.0], dtype=torch.float64)
    masked = overflow_masked(Interval(ref - 1, ref + 1), ref, HALF)
    assert masked.any.tolist() == [False, True] and masked.hi.max() <= HALF.greatest
    fine = Interval(ref - 1, ref)
    assert overflow_masked(fine, ref, HALF) is fine


# Every operator: intervals contain what they must, native results lie in the envelope.


INSTANCES = 6
NAMES = list(OpRegistry.load())


def samples(registry: OpRegistry, name: str) -> Iterator[tuple[Graph, dict[str, np.ndarray]]]:
    """Single-operator graphs with inputs in the operator's domain."""
    spec, rng, values = registry.get(name), random.Random(name), np.random.default_rng(1)
    signatures = spec.signatures()
    found = 0
    for _ in range(10 * INSTANCES):
        rank = rng.randint(spec.inputs[0].ranks[0], min(5, spec.inputs[0].ranks[1]))
        draw = Draw(rng, instances.SIZES)
        instance = instances.solved(spec, rng.choice(signatures), rank, draw)
        if instance is None:
            continue
        arrays, valid = runtimes.inputs_for(instance, values)
        if valid:
            found += 1
            yield single(instance), {f"x{i}": np.asarray(a) for i, a in enumerate(arrays)}
        if found == INSTANCES:
            return
    assert found > 0, f"no valid instance of {name}"


def single(instance: OpInstance) -> Graph:
    """The graph of one application, inputs x0, x1 ... and outputs y0, y1 ..."""
    outputs = instance.op.type_transfer(*instance.types)
    ins = [f"x{i}" for i in range(len(instance.types))]
    outs = [f"y{i}" for i in range(len(outputs))]
    values = {n: Value(n, t) for n, t in zip([*ins, *outs], [*instance.types, *outputs])}
    return Graph(values, [Node(instance.op, tuple(ins), tuple(outs))], ins, [], outs)


def native(graph: Graph, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays = [params[n] for n in graph.inputs]
    return dict(zip(graph.outputs, runtimes.run_torch(graph.nodes[0].op, arrays)))


@pytest.mark.parametrize("name", NAMES)
def test_native_results_lie_in_the_envelope(registry, name):
    for graph, params in samples(registry, name):
        envelope = envelopes(graph, params)
        assert compare(envelope, native(graph, params)) == (), (graph.nodes, params)


@pytest.mark.parametrize("name", NAMES)
def test_intervals_contain_the_results_of_all_points_inside(registry, name):
    torch.manual_seed(0)
    rng = random.Random(name)
    for graph, params in samples(registry, name):
        node = graph.nodes[0]
        with torch.inference_mode():
            values = reference(graph, params)
            intervals = {n: around(values[n], rng) for n in graph.inputs}
            given = [intervals[n] for n in node.inputs]
            node_intervals(graph, node, values, intervals)
            for attempt in range(6):
                found = node.op.torch(*[inside(b, attempt % 2 == 0) for b in given])
                found = found if isinstance(found, (tuple, list)) else [found]
                for output, y in zip(node.outputs, found):
                    interval = intervals[output]
                    y = settled(y, graph.type(output).dtype)
                    y = y.double() if interval.lo.is_floating_point() else y
                    ok = ((y >= interval.lo) & (y <= interval.hi)) | interval.mask()
                    assert bool(ok.all()), (node, y[~ok], interval.lo[~ok], interval.hi[~ok])


def scaled(y: np.ndarray) -> np.ndarray:
    return y * (1 + 1e-4)


def narrowed(y: np.ndarray) -> np.ndarray:
    """float16 where the dtype is wider."""
    with np.errstate(over="ignore"):
        return y.astype(np.float16)


@pytest.mark.parametrize("name", ["Exp", "Tanh", "Conv", "MatMul", "Softmax", "Gelu", "Div", "Pow"])
@pytest.mark.parametrize("fault", [scaled, narrowed])
def test_subtle_faults_are_caught(registry, name, fault):
    caught = tried = 0
    for graph, params in samples(registry, name):
        if not graph.type("y0").dtype.is_float or graph.type("y0").dtype.value == "float16":
            continue
        good = native(graph, params)
        bad = {n: np.asarray(fault(y)).astype(y.dtype) for n, y in good.items()}
        if all(np.array_equal(good[n], bad[n]) for n in good):
            continue
        tried += 1
        caught += compare(envelopes(graph, params), bad) != ()
    assert tried and caught == tried


def test_erf_for_tanh_is_caught(build):
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    b = build(x=x)
    graph, params = b.done(b.add("Gelu", "x", approximate="none"))
    other = torch.nn.functional.gelu(torch.from_numpy(x), approximate="tanh").numpy()
    assert compare(envelopes(graph, params), {graph.outputs[0]: other})


def test_an_uncertain_remainder_of_0_is_not_compared(build):
    """Floor(x / x) is 0 where the quotient is a product with a reciprocal: all of x is left."""
    builder = build(a=np.ones(1, np.float32), b=np.full((1, 1), -1.7, np.float32))
    x = builder.add("MatMul", "a", "b")
    graph, params = builder.done(y := builder.add("Mod", x, x, fmod=0))
    assert envelopes(graph, params)[y].any.all()
    far = build(a=np.full(1, 5.0, np.float32), b=np.ones((1, 1), np.float32))
    graph, params = far.done(y := far.add("Mod", far.add("MatMul", "a", "b"), "a", fmod=1))
    assert not envelopes(graph, params)[y].any.all()
