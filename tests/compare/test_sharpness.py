"""Envelopes are no wider than legal implementations need, and as wide as these do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnfuzz.compare.envelope import Envelope, envelopes
from nnfuzz.compare.verdict import compare
from nnfuzz.operators.intervals import Interval, linear

HALF, SINGLE, DOUBLE = np.float16, np.float32, np.float64


def only(graph, params) -> Envelope:
    return envelopes(graph, params)[graph.outputs[0]]


def contained(e: Envelope, y: np.ndarray) -> bool:
    least, most = e.admitted
    return bool(((y >= least) & (y <= most) | e.any).all())


@pytest.mark.parametrize("dtype", [HALF, SINGLE, DOUBLE])
@pytest.mark.parametrize("k", [2, 9, 300])
def test_sums_in_any_order_lie_inside(build, dtype, k):
    rng = np.random.default_rng(k)
    for make in (rng.normal, rng.uniform):  # signs mixed, and all alike
        x = make(0, 1, (6, k)).astype(dtype)
        b = build(x=x)
        e = only(*b.done(b.add("ReduceSum", "x", axes=(1,), keepdims=0)))
        ascending = np.sort(x, 1)
        halves = np.concatenate([ascending[:, ::2], ascending[:, 1::2]], 1)
        for order in (x, ascending, ascending[:, ::-1], halves):
            y = np.add.accumulate(order, 1, dtype)[:, -1]
            assert contained(e, y)
        assert contained(e, x.astype(np.float64).sum(1).astype(dtype))


def test_a_sum_of_mixed_signs_is_held_to_half_of_its_absolute_terms(build):
    x = np.tile(np.array([1.1, -1.1], SINGLE), 128)[None]
    b = build(x=x)
    e = only(*b.done(b.add("ReduceSum", "x", axes=(1,), keepdims=0)))
    assert (e.hi - e.lo)[0] / 2 < 0.6 * 256 * 2.0**-24 * np.abs(x).sum()


def normal(build, x, eps=1e-5):
    size = x.shape[-1]
    b = build(x=x, scale=np.ones(size, x.dtype), bias=np.zeros(size, x.dtype))
    return only(*b.done(b.add("LayerNormalization", "x", "scale", "bias", axis=-1, epsilon=eps)))


def two_passes(x, eps):
    """Every step in the dtype of x, sums by one accumulator."""
    dtype, k = x.dtype.type, x.shape[-1]

    def mean(v):
        return (np.add.accumulate(v, -1, dtype)[..., -1:] / dtype(k)).astype(dtype)

    d = x - mean(x)
    return d / np.sqrt(mean(d * d) + dtype(eps))


def one_pass(x, eps):
    """Statistics in float32, variance as the difference of two means; x g - mean g."""
    v = x.astype(SINGLE)
    mean = v.mean(-1, keepdims=True, dtype=SINGLE)
    variance = np.maximum((v * v).mean(-1, keepdims=True, dtype=SINGLE) - mean * mean, 0)
    g = 1 / np.sqrt(variance + SINGLE(eps))
    return (v * g - mean * g).astype(x.dtype)


@pytest.mark.parametrize("dtype", [HALF, SINGLE])
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_normalisations_in_one_pass_and_in_two_lie_inside(build, dtype, shift):
    rng = np.random.default_rng(1)
    for k in (3, 16, 130):
        x = (rng.normal(shift, 1, (20, k))).astype(dtype)
        e = normal(build, x)
        assert contained(e, two_passes(x, 1e-5))
        assert contained(e, one_pass(x, 1e-5))


def test_another_epsilon_of_a_normalisation_in_float16_does_not_pass(build):
    x = np.random.default_rng(2).normal(0, 0.3, (8, 48)).astype(HALF)
    right, wrong = (two_passes(x.astype(DOUBLE), eps).astype(HALF) for eps in (0.1, 0.149))
    e = normal(build, x, 0.1)
    assert contained(e, right)
    assert not contained(e, wrong)
    assert (e.hi - e.lo).max() < 0.2


def test_gelu_of_float64_is_not_computed_in_float32(build):
    x = np.linspace(-3, 3, 64)
    b = build(x=x)
    graph, params = b.done(b.add("Gelu", "x", approximate="none"))
    coarse = torch.nn.functional.gelu(torch.from_numpy(x.astype(SINGLE))).double().numpy()
    assert compare(envelopes(graph, params), {graph.outputs[0]: coarse})
    fine = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    assert not compare(envelopes(graph, params), {graph.outputs[0]: fine})


def test_a_kinked_function_rounds_at_the_end_that_is_nearer_to_zero_as_well(build):
    """Elu copies positive numbers, but the other end of the interval is negative."""
    x = np.array([-1e-4, 1e-4], HALF)
    b = build(x=x)
    sign = b.add("Sign", b.add("Sub", b.add("Add", "x", b.add("Sin", "x")), b.add("Sin", "x")))
    e = only(*b.done(b.add("Elu", sign, alpha=1.5)))
    exact = 1.5 * np.expm1(-1.0)
    assert (e.lo[e.lo < 0] < exact - 3 * 2.0**-11 * abs(exact)).all()


def rounded(b, values):
    """The numbers, behind a sum that rounds them."""
    x = np.asarray(values, SINGLE)
    b.params["x"][:] = x - SINGLE(0.3)
    return b.add("Add", "x", "c")


@pytest.mark.parametrize(("in_order", "known"), [(1, 2), (0, 3)])
def test_unique_is_compared_up_to_elements_that_may_be_equal(build, in_order, known):
    b = build(x=np.zeros(6, SINGLE), c=np.full(6, 0.3, SINGLE))
    x = rounded(b, [5.1, 1.1, 2.2, 1.1 + 1, 1.1 + 1 + 1e-7, 7.7])
    name = b.add("Unique", x, axis=None, sorted=in_order)
    outputs = b.graph.nodes[-1].outputs
    graph, params = b.done(*outputs)
    values, first, which, counts = (envelopes(graph, params)[n] for n in outputs)
    if in_order:  # 1.1 comes first; 2.1 and its neighbour may be one number
        assert values.comparable.tolist() == [True] + [False] * 5
        assert which.comparable.tolist() == [False, True, False, False, False, False]
        assert counts.comparable.tolist() == first.comparable.tolist() == values.comparable.tolist()
    else:  # the first four are new; the fifth may repeat the fourth
        assert first.comparable.tolist() == [True] * 4 + [False] * 2
        assert counts.comparable.tolist() == [True] * 3 + [False] * 3
        assert which.comparable.tolist() == [True] * 4 + [False] * 2
    assert name in outputs


def around(values, *open_, by=1e-6) -> Interval:
    """An interval around numbers, exact but at some places of the flat tensor."""
    x = torch.tensor(values, dtype=torch.float64)
    r = torch.zeros_like(x)
    r.view(-1)[list(open_)] = by
    return Interval(x - r, x + r)


def test_nonzero_is_compared_up_to_the_first_element_that_may_be_zero(registry):
    (y,) = registry.get("NonZero")(size=4).interval(around([1.1, 0.0, 2.2, 0.0, 4.4], 0, 3))
    assert y.lo[0, :2].tolist() == [0, 2]
    assert y.mask().tolist() == [[False, False, True, True]]


def test_nonmaxsuppression_is_compared_up_to_the_first_open_decision(registry):
    boxes = around([[[0, 0, 1, 1], [5, 5, 6, 6], [9, 9, 10, 10]]])
    op = registry.get("NonMaxSuppression")(center_point_box=0, most=3, iou=0.5, least=None, rows=4)
    known = around([[[0.9, 0.7, 0.6]]], 0, 1, 2)
    assert op.decided(2.0**-24, boxes, known)[0].any is None
    close = around([[[0.9, 0.7, 0.7 + 1e-7]]], 0, 1, 2)
    (y,) = op.decided(2.0**-24, boxes, close)
    assert y.lo[0].tolist() == [0, 0, 0]
    assert y.mask()[:, 0].tolist() == [False, True, True, True]


def test_what_is_compared_of_set_like_outputs_holds_for_all_points_inside(registry):
    """Slices and elements that overlap in all ways: decided positions never change."""
    rng = np.random.default_rng(5)
    decided = 0
    for trial in range(60):
        ref = torch.from_numpy(rng.integers(0, 4, (5, 2)).astype(DOUBLE))
        r = torch.from_numpy(rng.choice([0, 0, 0.1, 0.6], (5, 2)))
        x = Interval(ref - r, ref + r)
        for axis in (None, 0, 1):
            for in_order in (0, 1):
                op = registry.get("Unique")(axis=axis, sorted=in_order)
                found = op.interval(x)
                for _ in range(4):
                    point = ref + r * torch.from_numpy(rng.choice([-1, 0, 0.3, 1], (5, 2)))
                    for interval, y in zip(found, op.torch(point)):
                        ok = (y >= interval.lo) & (y <= interval.hi) | interval.mask()
                        assert bool(ok.all()), (trial, axis, in_order, x, point)
                decided += sum(int((~i.mask()).sum()) for i in found)
    assert decided > 2000


def test_linear_operators_move_by_what_their_factors_may():
    """Every corner of the factors lies inside, and nothing is lost to cancellation."""
    rng = np.random.default_rng(7)
    a, b, ra, rb = (torch.from_numpy(rng.uniform(1, 2, s)) for s in ((2, 3), (3, 2)) * 2)
    x, w = Interval(a - ra / 8, a + ra / 8), Interval(b - rb / 8, b + rb / 8)
    y = linear(torch.matmul, x, w, weights=(0, 1))
    assert bool((y.hi >= torch.matmul(x.hi, w.hi)).all())
    assert bool((y.lo <= torch.matmul(x.lo, w.lo)).all())
    tiny = linear(torch.matmul, Interval(a, a * (1 + 2.0**-50)), Interval(b, b), weights=(0, 1))
    assert float(((tiny.hi - tiny.lo) / torch.matmul(a, b)).max()) < 1.6 * 2.0**-50


def by_steps(name, x):
    """A function step by step, every one rounded to the dtype of x."""
    one, two, e = x.dtype.type(1), x.dtype.type(2), np.exp
    if name == "Sigmoid":
        return one / (one + e(-x))
    if name == "Tanh":
        p = e(two * np.abs(x))
        return np.sign(x) * (p - one) / (p + one)
    if name == "Softplus":
        return np.log(one + e(x))
    return x * (one / (one + e(-x)))


@pytest.mark.parametrize("name", ["Sigmoid", "Tanh", "Softplus", "Swish"])
@pytest.mark.parametrize("dtype", [HALF, DOUBLE])
def test_functions_may_be_computed_by_their_steps(build, dtype, name):
    x = np.linspace(-5, 5, 2001).astype(dtype)
    b = build(x=x)
    attributes = {"alpha": 1.0} if name == "Swish" else {}
    assert contained(only(*b.done(b.add(name, "x", **attributes))), by_steps(name, x))


def test_a_box_without_an_area_leaves_picks_by_score_alone(registry):
    boxes = around([[[0, 0, 1, 1], [5, 5, 5, 6], [9, 9, 10, 10]]])
    op = registry.get("NonMaxSuppression")(center_point_box=0, most=3, iou=0.5, least=None, rows=4)
    (y,) = op.decided(2.0**-24, boxes, around([[[0.9, 0.7, 0.6]]]))
    assert y.mask()[:, 0].tolist() == [False, True, True, True]
    (y,) = op.decided(2.0**-24, boxes, around([[[0.6, 0.7, 0.9]]]))
    assert y.lo[0].tolist() == [0, 0, 2]
    assert y.mask()[:, 0].tolist() == [False, True, True, True]


def test_a_score_that_is_not_known_opens_its_own_class_alone(registry):
    boxes = around([[[0, 0, 1, 1], [5, 5, 6, 6]]])
    op = registry.get("NonMaxSuppression")(center_point_box=0, most=1, iou=0.5, least=None, rows=3)
    scores = around([[[0.9, 0.7], [0.2, 0.3]]])
    lost = Interval(scores.lo, scores.hi, torch.tensor([[[False, False], [True, False]]]))
    (y,) = op.decided(2.0**-24, boxes, lost)
    assert y.lo[0].tolist() == [0, 0, 0]
    assert y.mask()[:, 0].tolist() == [False, True, True]


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_a_share_of_one_element_is_known_whatever_the_element_is(build, name):
    x = np.array([[1e6], [3.0]], SINGLE) * np.array([[1.0], [7.0]], SINGLE)
    b = build(x=x, y=np.array([[1.1], [1.7]], SINGLE))
    wide = b.add("ReduceSum", b.add("Mul", b.add("Mul", "x", "x"), "y"), axes=(1,), keepdims=1)
    e = only(*b.done(b.add(name, wide, axis=1)))
    assert contained(e, np.full((2, 1), 1.0 if name == "Softmax" else 0.0, SINGLE))
    assert ((e.hi - e.lo) < 2e-6).all()


def test_one_pass_in_any_order_of_additions_lies_inside(build):
    rng = np.random.default_rng(1)
    for mean in (1, 30, 200):
        x = (rng.normal(0, 1, (8, 128)) + mean).astype(SINGLE)
        e = normal(build, x)
        for order in (x, np.sort(x, 1)):
            terms = order * order
            square = np.add.accumulate(terms, 1, SINGLE)[:, -1:] / SINGLE(128)
            middle = np.add.accumulate(order, 1, SINGLE)[:, -1:] / SINGLE(128)
            variance = square - middle * middle
            y = (x - middle) / np.sqrt(np.maximum(variance, 0) + SINGLE(1e-5))
            assert contained(e, y)


@pytest.mark.parametrize("dtype", [HALF, SINGLE, DOUBLE])
def test_a_clip_that_clamps_again_is_no_wider_than_its_bound_is_rounded(build, dtype):
    x = np.array([0.5, -9.0, -7.7], dtype)
    b = build(x=x)
    once = b.add("Clip", b.add("Sin", "x"), min=None, max=-7.7)
    e = only(*b.done(b.add("Clip", once, min=None, max=-7.7)))
    assert contained(e, np.full(3, SINGLE(-7.7), dtype))  # as opsets before 11 store it
    assert ((e.hi - e.lo) / 2 <= 5 * np.finfo(dtype).eps * 7.7).all()
