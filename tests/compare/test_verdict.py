"""Verdicts: kinds of mismatch, the worst element, JSON, a suspect reference."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.compare.mismatch import MismatchKind
from nnfuzz.compare.verdict import judge


def changed(outputs, change):
    return {name: change(array.copy()) for name, array in outputs.items()}


def kind(case, change):
    graph, params, good = case
    (found,) = judge(graph, params, {"p": changed(good, change)}).mismatches["p"]
    return found


def test_rounding_passes_and_a_scale_of_1e_4_does_not(case):
    graph, params, good = case
    scaled = changed(good, lambda y: y * np.float32(1 + 1e-4))
    verdict = judge(graph, params, {"good": good, "scaled": scaled})
    assert verdict.mismatches["good"] == ()
    assert [m.kind for m in verdict.mismatches["scaled"]] == [MismatchKind.VALUE]
    assert verdict.comparable_share == 1
    assert not verdict.ok


def test_worst_and_first_element(case):
    def change(y):
        y[0, 1] += 0.01
        y[2, 3] += 1
        return y

    found = kind(case, change)
    assert (found.wrong, found.share) == (2, pytest.approx(2 / 12))
    assert found.first.index == (0, 1)
    assert found.worst.index == (2, 3)
    worst = found.worst
    assert worst.lo <= worst.expected <= worst.hi < worst.actual
    ulp = float(np.spacing(np.float32(worst.expected)))
    assert worst.excess == pytest.approx((worst.actual - worst.hi) / ulp)


def test_discrete_outputs_off_by_one(build):
    b = build(x=np.int32([1, 2]))
    name = b.add("Add", "x", "x")
    graph, params = b.done(name)
    (found,) = judge(graph, params, {"p": {name: np.int32([2, 5])}}).mismatches["p"]
    assert (found.worst.expected, found.worst.actual, found.worst.excess) == (4, 5, 1)
    assert not judge(graph, params, {"p": {name: np.int32([2, 4])}}).mismatches["p"]


def test_elements_without_a_meaning_are_not_compared(build):
    b = build(x=np.float32([1e9, 3.5]))
    from nnfuzz.ir.dtypes import DType

    name = b.add("Cast", "x", to=DType.INT8)
    graph, params = b.done(name)
    verdict = judge(graph, params, {"p": {name: np.int8([77, 3])}})
    assert verdict.ok
    assert verdict.comparable == {name: 0.5}


def test_the_reference_is_suspect_when_all_independent_parties_are_flagged(case):
    graph, params, good = case
    bad = changed(good, lambda y: y + 1)
    groups = [["a/0", "a/1"], ["b/0"]]
    runs = {"a/0": bad, "a/1": bad, "b/0": bad}
    assert judge(graph, params, runs, groups).suspect_reference
    assert not judge(graph, params, {**runs, "b/0": good}, groups).suspect_reference
    assert not judge(graph, params, {"a/0": bad, "a/1": bad}, groups[:1]).suspect_reference
    assert not judge(graph, params, runs).suspect_reference


def test_a_scalar_output(build):
    b = build(x=np.float32(2.0))
    name = b.add("Exp", "x")
    graph, params = b.done(name)
    good, bad = ({name: np.asarray(v, np.float32)} for v in (np.exp(2), 7))
    verdict = judge(graph, params, {"good": good, "bad": bad})
    assert verdict.mismatches["good"] == ()
    assert verdict.mismatches["bad"][0].worst.index == ()


def test_any_distance_from_a_tiny_number_is_a_mismatch_and_no_warning(build):
    """1e308 is more ULP of the least double away from it than a double can count."""
    x = np.array([5e-324], np.float64)
    b = build(x=x)
    graph, params = b.done(b.add("Neg", "x"))
    (name,) = graph.outputs
    verdict = judge(graph, params, {"p": {name: np.array([1e308])}})
    assert verdict.mismatches["p"][0].worst.excess == "inf"
