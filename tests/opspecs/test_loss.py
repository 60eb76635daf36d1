"""Losses against PyTorch's own, their rounding errors, and their intervals."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.loss import NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss
from torch.nn import functional as F

from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import flatten

U = 2.0**-24


def operands(seed: int, classes: int = 5):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4, classes, 3, generator=generator)
    target = torch.randint(-1, classes, (4, 3), generator=generator)
    return x, target, torch.rand(classes, generator=generator) + 0.1


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_are_pytorch_s(reduction, weighted):
    x, target, weight = operands(0)
    given = (weight,) if weighted else ()
    options = {"reduction": reduction, "ignore_index": -1}
    expected = F.nll_loss(x, target, *given, **options)
    assert torch.allclose(NegativeLogLikelihoodLoss(**options).torch(x, target, *given), expected)
    loss, logs = SoftmaxCrossEntropyLoss(**options, log_prob=1).torch(x, target, *given)
    assert torch.allclose(loss, F.cross_entropy(x, target, *given, **options))
    assert torch.equal(logs, x.log_softmax(1))


def test_a_mean_needs_a_position_that_counts():
    op = NegativeLogLikelihoodLoss(reduction="mean", ignore_index=-1)
    x, target, weight = operands(1)
    assert all(bool((term <= 0).all()) for term in op.domain(x, target, weight))
    assert not all(bool((term <= 0).all()) for term in op.domain(x, target.fill_(-1), weight))


@pytest.mark.parametrize("spec", [NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_float32_stays_within_the_radius_and_neighbours_within_the_interval(spec, reduction):
    extra = {"log_prob": 0} if spec is SoftmaxCrossEntropyLoss else {}
    op = spec(reduction=reduction, ignore_index=0, **extra)
    for seed in range(20):
        x, target, weight = operands(seed)
        target = target.clamp(min=0)
        if bool((target == 0).all()):
            continue
        (y,) = flatten(op.torch(x.double(), target, weight.double()))
        (found,) = flatten(op.torch(x, target, weight))
        radius = op.radius(U, y, x.double(), target, weight.double())
        assert ((found.double() - y).abs() <= radius + 2 * U * y.abs() + 1e-30).all()
        lo, hi = x.double() - 0.01, x.double() + 0.01
        intervals = [
            Interval(lo, hi),
            Interval(target, target),
            Interval(weight.double(), weight.double() + 0.1),
        ]
        interval = op.interval(*intervals)[0]
        assert ((interval.lo <= y) & (y <= interval.hi)).all()
