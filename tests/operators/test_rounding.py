"""Radii of sums."""

from __future__ import annotations

import numpy as np
import torch

from nnfuzz.operators.rounding import by_squares, largest_first


def trees(rng, terms):
    """The partial sums of one random order of additions."""
    left, sums = list(terms), []
    while len(left) > 1:
        a, b = (left.pop(int(rng.integers(len(left)))) for _ in range(2))
        left.append(a + b)
        sums.append(abs(a + b))
    return sum(sums)


def test_partial_sums_of_no_order_add_up_to_more_than_the_largest_first():
    rng = np.random.default_rng(6)
    for k in (3, 4, 7, 20):
        for terms in (rng.uniform(0, 1, k), rng.normal(0, 1, k), np.exp(rng.normal(0, 4, k))):
            size = torch.from_numpy(np.abs(terms))
            most = (size.sum(0, keepdim=True) + abs(terms.sum())) / 2
            bound = float(largest_first(size, (0,), most))
            assert bound <= float(by_squares((size * size).sum(), k)(most)) * (1 + 1e-12)
            for _ in range(30):
                assert trees(rng, terms) <= bound * (1 + 1e-12)


def test_largest_first_keeps_the_axes_that_are_not_summed():
    x = torch.arange(24.0).reshape(2, 3, 4)
    most = torch.full((2, 1, 1), 1e9)
    rows = [sum(sorted(r.flatten().tolist(), reverse=True)[:n]) for r in x for n in range(2, 13)]
    assert largest_first(x, (1, -1), most).flatten().tolist() == [sum(rows[:11]), sum(rows[11:])]
