"""Normalisations by groups, norms and neighbourhoods."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.norm import Hardmax
from nnfuzz.opspecs.scaling import (
    LRN,
    GroupNormalization,
    LpNormalization,
    MeanVarianceNormalization,
    RMSNormalization,
)
from torch.nn import functional as F

from nnfuzz.check.instances import OpInstance
from nnfuzz.check.reference_implementations import one_node
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, t


def kinds(op, opset, *types):
    """Operator types of the direct lowering."""
    model = one_node(OpInstance(op, types), op.type_transfer(*types), opset)
    return [node.op_type for node in model.graph.node]


def test_group_normalization_is_pytorch_s():
    x, scale, bias = ramp(2, 6, 4).sin(), ramp(6) + 1, ramp(6)
    op = GroupNormalization(num_groups=3, epsilon=1e-3)
    expected = F.group_norm(x, 3, scale, bias, op.eps)
    assert torch.allclose(op.torch(x, scale, bias), expected, atol=1e-5)
    with pytest.raises(ConstraintError):
        GroupNormalization(num_groups=4, epsilon=1e-3).check(t(2, 6, 4), t(6), t(6))


@pytest.mark.parametrize(("opset", "fused"), [(20, False), (21, True)])
def test_one_scale_per_channel_came_with_opset_21(opset, fused):
    op = GroupNormalization(num_groups=3, epsilon=1e-3)
    types = t(2, 6, 4), t(6), t(6)
    assert (kinds(op, opset, *types) == ["GroupNormalization"]) == fused
    wide = [x.with_dtype(DType.FLOAT64) for x in types]
    assert "InstanceNormalization" in kinds(op, opset, *wide)


def test_root_mean_square_is_pytorch_s_and_scales_may_broadcast():
    x, scale = ramp(2, 3, 4).sin(), ramp(3, 4) + 1
    op = RMSNormalization(axis=1, epsilon=1e-3)
    assert torch.allclose(op.torch(x, scale), F.rms_norm(x, (3, 4), scale, op.eps), atol=1e-6)
    op.check(t(2, 3, 4), t(4))
    op.check(t(2, 3, 4), t(3, 1))
    with pytest.raises(ConstraintError):
        op.check(t(2, 3, 4), t(2, 3, 4))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_odd_neighbourhoods_are_pytorch_s(size):
    x = ramp(2, 5, 3, 2).sin()
    op = LRN(size=size, alpha=0.5, beta=0.75, bias=2.0)
    expected = F.local_response_norm(x, size, 0.5, 0.75, 2.0)
    assert torch.allclose(op.torch(x), expected, atol=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_norms_become_one(p):
    y = LpNormalization(axis=-2, p=p).torch(ramp(3, 4) - 5)
    assert torch.allclose(torch.linalg.vector_norm(y, p, -2), torch.ones(4))


def test_a_constant_has_no_deviation_to_divide_by():
    op = MeanVarianceNormalization(axes=(0, 2))
    assert max(term.max().item() for term in op.domain(torch.ones(2, 3, 4))) > 0
    assert max(term.max().item() for term in op.domain(ramp(2, 3, 4))) <= 0
    with pytest.raises(ConstraintError):
        op.check(t(1, 3, 1))


def test_of_several_largest_elements_the_first_one_counts():
    assert Hardmax(axis=0).torch(torch.tensor([1.0, 3.0, 3.0])).tolist() == [0, 1, 0]
    (interval,) = Hardmax(axis=0).interval(
        Interval(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]))
    )
    assert interval.lo.tolist() == interval.hi.tolist() == [0, 1]
    (interval,) = Hardmax(axis=0).interval(
        Interval(torch.tensor([2.5, 2.0]), torch.tensor([2.5, 3.0]))
    )
    assert (interval.lo.tolist(), interval.hi.tolist()) == ([0, 0], [1, 1])


def test_a_neighbourhood_of_one_channel_has_no_sum_to_lose_digits_in():
    x = torch.tensor([30000.0, 1.0, 1.0], dtype=torch.float64).reshape(1, 3, 1, 1)
    radius = {}
    for size in (1, 3):
        op = LRN(size=size, alpha=1.0, beta=1.0, bias=1.0)
        radius[size] = (op.radius(2.0**-24, op.torch(x), x) / op.torch(x)).flatten().tolist()
    assert max(radius[1]) < 1e-5 < 1e-4 < radius[3][2]
