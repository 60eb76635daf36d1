"""Bounds by random rounding errors: narrower than the envelope, around what PyTorch computes."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.envelope import width
from nnfuzz.compare.reference import ReferenceFault
from nnfuzz.compare.statistical import Sampling, narrow_envelopes
from nnfuzz.compare.verdict import compare
from nnfuzz.ir.dtypes import DType


@pytest.fixture
def chain(build):
    """Four products of matrices of 32 columns, and what PyTorch makes of them in float32."""
    import torch

    rng = np.random.default_rng(3)
    given = {n: rng.standard_normal((32, 32)).astype(np.float32) for n in "abcde"}
    b = build(**given)
    name, result = "a", torch.from_numpy(given["a"])
    for factor in "bcde":
        name = b.add("MatMul", name, factor)
        result = result @ torch.from_numpy(given[factor])
    graph, params = b.done(name)
    return graph, params, {name: result.numpy()}


def both(graph, params, **settings):
    bounds = enclosure(graph, params)
    return bounds.envelopes, narrow_envelopes(bounds, params, Sampling(**settings))


def test_a_chain_of_products_has_narrower_bounds_that_hold_pytorchs_result(chain):
    graph, params, good = chain
    envelope, nearer = both(graph, params)
    (name,) = good
    assert width(nearer[name]).median < width(envelope[name]).median / 20
    assert (nearer[name].lo >= envelope[name].lo).all()
    assert (nearer[name].hi <= envelope[name].hi).all()
    assert not compare(nearer, good) and not compare(envelope, good)


def test_an_error_that_the_envelope_lets_through_is_flagged(chain):
    """Four products of matrices in the order of the worst case admit an error of 1e-4."""
    graph, params, good = chain
    envelope, nearer = both(graph, params)
    wrong = {name: array * np.float32(1 + 1e-4) for name, array in good.items()}
    assert not compare(envelope, wrong) and compare(nearer, wrong)


def test_the_same_seed_gives_the_same_bounds(chain):
    graph, params, good = chain
    (name,) = good
    first, again, other = (both(graph, params, samples=2, seed=s)[1][name] for s in (1, 1, 9))
    assert (first.lo == again.lo).all() and (first.lo != other.lo).any()


def test_more_samples_never_narrow(chain):
    graph, params, good = chain
    (name,) = good
    few, many = (both(graph, params, samples=k)[1][name] for k in (2, 8))
    assert (many.lo <= few.lo).all() and (few.hi <= many.hi).all()


def test_decisions_and_what_is_not_compared_stay(build):
    b = build(x=np.float32([0.1, 2.5, 1e9]), y=np.float32([0.2, 0.5, 1]))
    s = b.add("Mul", "x", "y")
    graph, params = b.done(b.add("Cast", s, to=DType.INT8), b.add("Relu", s), b.add("Neg", "x"))
    envelope, nearer = both(graph, params)
    cast, relu, neg = graph.outputs
    assert nearer[cast] is envelope[cast]
    assert (nearer[relu].any == envelope[relu].any).all()
    assert (nearer[neg].lo == nearer[neg].hi).all()  # nobody rounds a sign


def test_where_an_error_makes_an_operator_impossible_the_envelope_stays(build, monkeypatch):
    b = build(x=np.float32([0.1, 0.3]), y=np.float32([0.3, 0.1]))
    graph, params = b.done(b.add("Add", "x", "y"))
    bounds = enclosure(graph, params)

    def fails(*_):
        raise ReferenceFault("another shape")

    monkeypatch.setattr("nnfuzz.compare.statistical.node_values", fails)
    assert narrow_envelopes(bounds, params, Sampling()) is bounds.envelopes


def test_what_depends_on_an_open_decision_keeps_the_envelope(build):
    def rounded(x):
        b = build(x=np.float32(x))
        near = b.add("Exp", b.add("Log", "x"))
        graph, params = b.done(b.add("Mul", b.add("Round", near), near))
        (name,) = graph.outputs
        envelope, nearer = both(graph, params)
        return nearer[name] is envelope[name]

    assert rounded([2.5, 1.2])  # the first is a tie
    assert not rounded([2.4, 1.2])


def test_infinities_and_nan_are_asked_for_as_in_the_envelope(build):
    x = np.float32([np.inf, np.nan, 1.5])
    b = build(x=x)
    graph, params = b.done(b.add("Exp", "x"))
    _, nearer = both(graph, params)
    (name,) = graph.outputs
    assert not compare(nearer, {name: np.exp(x)})
    assert compare(nearer, {name: np.float32([1, np.nan, np.exp(1.5)])})
