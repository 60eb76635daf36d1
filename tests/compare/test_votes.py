"""Targets against each other where nothing is comparable: what no legal computation reaches."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.backend.target import Target
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.flip import Coordinate, voted
from nnfuzz.compare.mismatch import Dispute
from nnfuzz.compare.votes import disputes, spreads, unreferenced

F32 = np.float32
A, B, C = Target("a"), Target("b"), Target("c")


def differing(graph, params, **results):
    bounds = enclosure(graph, params)
    (name,) = graph.outputs
    arrays = {Target(who): {name: array} for who, array in results.items()}
    return bounds, disputes(bounds, params, arrays)


def wild(build, x):
    """exp(x) divided by itself: overflows where x is large."""
    b = build(x=F32(x))
    e = b.add("Exp", "x")
    return b.done(b.add("Div", e, e))


def test_what_may_overflow_or_be_nan_is_never_disputed(build):
    graph, params = wild(build, [100.0, -200.0, 1.0])
    bounds, found = differing(
        graph, params, a=F32([np.nan, 1, 1]), b=F32([1, np.nan, 1]), c=F32([7, np.inf, 1])
    )
    assert bounds.envelopes[graph.outputs[0]].any.tolist() == [True, True, False]
    assert not found


def test_a_difference_inside_of_a_wide_interval_is_legal(build):
    b = build(x=F32([1e6]), y=F32([-1e6 + 1]), z=F32([1e-3]))
    total = b.add("Add", b.add("Add", "x", "z"), "y")
    graph, params = b.done(total)
    bounds, found = differing(graph, params, a=F32([1.0]), b=F32([1.0625]))
    assert not bounds.envelopes[total].any.any() and not found


def correlated(build):
    """1 / x', where x' = 2 x - x many times over: intervals triple each time, numbers stay."""
    b = build(x=np.linspace(1.0, 2.0, 8, dtype=F32), third=F32([1 / 3]), one=F32([1.0]))
    name = b.add("Mul", "x", "third")
    for _ in range(20):
        name = b.add("Sub", b.add("Add", name, name), name)
    return b.done(b.add("Div", "one", name))


def test_what_samples_agree_on_is_disputed_where_the_interval_gave_up(build):
    graph, params = correlated(build)
    (name,) = graph.outputs
    right = (1 / (params["x"] * F32(1 / 3))).astype(F32)
    wrong, slightly = right.copy(), right * F32(1 + 1e-5)
    wrong[3] = 0
    bounds, found = differing(graph, params, a=right, b=slightly, c=wrong)
    assert bounds.envelopes[name].any[3]
    dispute = found[name]
    assert dispute.groups == ((A, B), (C,)) and dispute.suspects == (C,)
    assert dispute.index == (3,) and dispute.count == 1 and dispute.votes == (2, 1)
    assert dispute.values == (pytest.approx(float(right[3])), 0.0)
    assert (spreads(bounds, params, [name])[name] < 1e-3).all()


def test_one_target_or_none_has_nobody_to_differ_from(build):
    graph, params = correlated(build)
    (name,) = graph.outputs
    bounds = enclosure(graph, params)
    assert not disputes(bounds, params, {})
    assert not disputes(bounds, params, {A: {name: np.zeros(8, F32)}, B: {}})


def test_an_open_decision_is_not_disputed(build):
    """Floor of something that rounding errors move over an integer."""
    b = build(x=F32([0.1]), y=F32([0.9]), one=F32([1.0]))
    low = b.add("Floor", b.add("Add", "x", "y"))
    graph, params = b.done(b.add("Div", "one", low))
    bounds, found = differing(graph, params, a=F32([1.0]), b=F32([np.inf]), c=F32([5.0]))
    assert bounds.envelopes[graph.outputs[0]].any.all() and not found


def test_without_a_reference_shapes_dtypes_and_half_of_the_digits_count():
    same = {A: {"y": F32([1, 2])}, B: {"y": F32([1.0001, 2])}}
    assert not unreferenced(same, {"y": 0.0})
    other = {**same, C: {"y": F32([[1, 2]])}}
    assert unreferenced(other, {"y": 0.0})["y"].values[1] == "float32[1, 2]"
    away = {A: {"y": F32([1, 2])}, B: {"y": F32([1, 3])}}
    assert unreferenced(away, {"y": 0.0})["y"].index == (1,)
    assert not unreferenced(away, {"y": 1.5})


def test_levels_of_one_compiler_have_one_vote():
    o0, o3, other = Target("x", pipeline="O0"), Target("x", pipeline="O3"), Target("y")
    assert Dispute("out", ((o0, o3), (other,))).votes == (1, 1)


def test_blame_by_flips_and_votes():
    o0, o3, y, z = Target("x", pipeline="O0"), Target("x", pipeline="O3"), B, C
    flip = voted([(o0,), (o3,)], (1, 1), [o3], ("O0", "O3"))
    assert flip.coordinate is Coordinate.PIPELINE and "nobody knows" in flip.evidence
    votes = voted([(y, z), (o3,)], (2, 1), [o3], ("O0", "O3"))
    assert votes.coordinate is Coordinate.COMPILER
    assert votes.evidence == "b and c agree with each other, and not with x"
    tie = voted([(y,), (o3,)], (1, 1), [o3], ("O0", "O3"))
    assert not tie.accused and "nobody knows who is right" in tie.evidence
