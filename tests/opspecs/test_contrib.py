"""Bounds of com.microsoft operators; test_conformance has their values."""

from __future__ import annotations

import numpy as np
import torch
from nnfuzz.opspecs.contrib.experts import Preferred

from nnfuzz.operators.intervals import Interval
from tests.inputs.graphs import REGISTRY


def op(name, **attributes):
    return REGISTRY.get(f"com.microsoft.{name}")(**attributes)


def test_factors_may_be_dequantised_before_they_are_multiplied():
    torch.manual_seed(0)
    product = op("MatMulIntegerToFloat", columns=0, listed=0)
    for _ in range(50):
        a = torch.randint(-9, 10, (3, 8), dtype=torch.int8)
        b = torch.randint(-9, 10, (8, 4), dtype=torch.int8)
        s, t = torch.rand(()) + 0.1, torch.rand(()) + 0.1
        wide = [a.double(), b.double(), s.double(), t.double()]
        exact = (wide[0] @ wide[1]) * (wide[2] * wide[3])
        error = (((a * s) @ (b * t)).double() - exact).abs()
        assert (error <= product.radius(2.0**-24, exact, *wide)).all()
        most = (wide[0].abs() @ wide[1].abs()) * (wide[2] * wide[3])
        assert (product.radius(2.0**-24, exact, *wide) < 1e-6 * most).all()


def test_of_experts_with_equal_scores_any_may_be_preferred():
    scores = torch.tensor([[1.0, 1.0, 0.0]])
    (y,) = Preferred(1).decided(0.0, Interval(scores, scores))
    assert (y.lo.tolist(), y.hi.tolist()) == ([[0.0, 0.0, 0.0]], [[1.0, 1.0, 0.0]])


def test_a_sample_at_the_edge_of_the_image_is_not_compared():
    x = torch.ones(1, 1, 4, 4)
    crop = op("CropAndResize", mode="bilinear", size=(2, 2), extrapolation=5.0)
    exact = [Interval(t, t) for t in (x, torch.tensor([[0.0, 0.25, 1.0, 0.5]]))]
    images = torch.zeros(1, dtype=torch.int32)
    (y,) = crop.decided(2.0**-24, *exact, Interval(images, images))
    assert y.mask()[0, 0].tolist() == [[False, False], [True, True]]
    assert bool(((y.lo <= 1) & (y.hi >= 1)).all())


def test_an_inverse_is_bounded_where_its_matrix_is_uncertain():
    x = torch.tensor([[2.0, 0.5], [0.25, 1.0]], dtype=torch.float64)
    inverse, e = op("Inverse"), 0.01
    (y,) = inverse.interval(Interval(x - e, x + e))
    for signs in np.ndindex(2, 2, 2, 2):
        moved = inverse.torch(x + e * (2 * torch.tensor(signs).reshape(2, 2) - 1))
        assert bool(((y.lo <= moved) & (moved <= y.hi)).all())
    assert bool((y.hi - y.lo < 0.1).all())
    (lost,) = inverse.interval(Interval(x - 1, x + 1))
    assert bool(lost.mask().all())
