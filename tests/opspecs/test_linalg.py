from __future__ import annotations

import numpy as np
import pytest
import torch
from nnfuzz.opspecs.linalg import Gemm, MatMul

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t


@pytest.mark.parametrize(
    ("a", "b", "y"),
    [
        ((3,), (3,), ()),
        ((2, 3), (3,), (2,)),
        ((3,), (3, 4), (4,)),
        ((5, 1, 2, 3), (7, 3, 4), (5, 7, 2, 4)),
        ((3,), (2, 3, 4), (2, 4)),
    ],
)
def test_matmul_is_numpy_s(a, b, y):
    op = MatMul()
    op.check(t(*a), t(*b))
    assert op.type_transfer(t(*a), t(*b))[0].same(t(*y))
    expected = np.matmul(ramp(*a).numpy(), ramp(*b).numpy())
    assert np.array_equal(op.torch(ramp(*a), ramp(*b)).numpy(), expected)


def test_inner_sizes_must_agree():
    with pytest.raises(ConstraintError):
        MatMul().check(t(2, 3), t(4, 5))


def test_gemm_scales_transposes_and_broadcasts():
    op = Gemm(alpha=0.5, beta=-1.0, transA=1, transB=1)
    a, b, c = ramp(3, 2), ramp(4, 3), ramp(4)
    op.check(t(3, 2), t(4, 3), t(4))
    assert torch.equal(op.torch(a, b, c), 0.5 * a.t() @ b.t() - c)
    assert op.cost(t(3, 2), t(4, 3), t(4)) == 2 * 2 * 3 * 4
    with pytest.raises(ConstraintError):
        op.check(t(3, 2), t(4, 3), t(2))


def test_ranks_of_matmul_vary():
    shapes = {(x.rank, y.rank) for _, (x, y) in solved(MatMul, DType.FLOAT32, 200)}
    assert {(1, 1), (2, 2), (4, 2), (5, 5), (3, 1)} <= shapes


def test_domain_forbids_sums_that_overflow():
    a = torch.full((1, 4), 200.0, dtype=torch.float16)
    (term,) = MatMul().domain(a, a.t())
    assert (term > 0).all()
