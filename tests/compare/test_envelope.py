"""The envelope on small graphs: exactness, overflow, undefined behaviour, discrete decisions."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.compare.envelope import Envelope, enveloped, envelopes
from nnfuzz.ir.dtypes import DType

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
