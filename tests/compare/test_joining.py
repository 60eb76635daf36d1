"""Sums that begin with a bias: what a Gemm made of MatMul and Add may yield."""

from __future__ import annotations

import numpy as np

from nnfuzz.compare.envelope import envelopes

F32 = np.float32


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
