"""Products: linear algebra, attention, quantised ones."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.attention import Attention
from nnfuzz.opspecs.dense import Det, MatMul
from nnfuzz.opspecs.quantize import (
    DynamicQuantizeLinear,
    QLinearMatMul,
    QuantizeLinear,
)

from nnfuzz.compare.envelope import admitted
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t

U = 2.0**-24


def exact(*values: torch.Tensor) -> list[Interval]:
    """Intervals around tensors as the oracle has them: floats in float64."""
    wide = [v.double() if v.is_floating_point() else v for v in values]
    return [Interval(v, v) for v in wide]


def inside(interval: Interval, y: torch.Tensor) -> bool:
    return bool(((interval.lo <= y) & (y <= interval.hi)).all())


def small(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    lo, hi = (0, 200) if dtype is torch.uint8 else (-60, 60)
    return torch.randint(lo, hi, shape, generator=generator).to(dtype)


def test_dynamic_quantisation_in_float32_lies_in_the_interval():
    generator = torch.Generator().manual_seed(1)
    op = DynamicQuantizeLinear()
    for shift in (-4.0, 0.0, 4.0):
        x = torch.randn(300, generator=generator) * 3 + shift
        found = op.torch(x)
        intervals = op.decided(U, *exact(x))
        assert inside(intervals[0], found[0]) and inside(intervals[2], found[2])
        assert float((intervals[0].hi != intervals[0].lo).double().mean()) < 0.01
        assert abs(float(found[1]) - float(intervals[1].lo)) <= 4 * U * float(found[1])


@pytest.mark.parametrize("columns", [0, 1])
def test_every_way_to_requantise_lies_in_the_interval(columns):
    generator = torch.Generator().manual_seed(3)
    op = QLinearMatMul(columns=columns)
    for _ in range(40):
        a, b = small(generator, 7, 9, dtype=torch.uint8), small(generator, 9, 5)
        size = (5,) if columns else ()
        s, r, out = (torch.rand(n, generator=generator) * 0.2 + 0.01 for n in ((), size, ()))
        out = out * 40
        za, zb = torch.tensor(100, dtype=torch.uint8), torch.zeros(size, dtype=torch.int8)
        zero = torch.tensor(-3, dtype=torch.int8)
        (interval,) = op.decided(U, *exact(a, s, za, b, r, zb, out, zero))
        total = (a.int() - 100) @ b.int()
        fixed = (s.double() * r.double() / out.double() * 2.0**31).round()
        for v in (
            total * (s * r / out),
            total.float() * s * r / out,
            total.double() * fixed / 2.0**31,
            (total * s) * (r * (1 / out)),
        ):
            assert inside(interval, (v.round() - 3).clamp(-128, 127))
        assert inside(interval, op.torch(a, s, za, b, r, zb, out, zero))
        wrong = (total * (s * r / out)).trunc() - 3
        assert not inside(interval, wrong.clamp(-128, 127))


def test_floats_of_8_bits_are_rounded_to_and_saturate():
    op = QuantizeLinear(axis=None, to=DType.FLOAT8_E4M3FN)
    x = torch.tensor([1.0, 1.06, 1.0625, 1000.0, -0.3])
    y = op.torch(x, torch.tensor(1.0))
    assert torch.equal(y, x.clamp(max=448).to(torch.float8_e4m3fn).float())
    assert op.margins(x, torch.tensor(1.0))[0][2] == 0
    with pytest.raises(ConstraintError):
        op.check(t(3), t(), t(dtype=DType.FLOAT8_E4M3FN))


def test_a_scale_of_one_element_and_an_axis_that_means_nothing_are_for_all():
    x, scale = torch.tensor([[1.0, 2.0, -3.0]]), torch.tensor([0.5])
    for op in (
        QuantizeLinear(axis=None, listed=1, to=DType.INT8),
        QuantizeLinear(axis=None, unread=-2, to=DType.INT8),
    ):
        op.check(t(1, 3), t(1) if op.listed else t())
        assert op.torch(x, scale if op.listed else scale[0]).tolist() == [[2, 4, -6]]
    with pytest.raises(ConstraintError):
        QuantizeLinear(axis=None, unread=2, to=DType.INT8).check(t(1, 3), t())


def test_ranks_of_matmul_vary():
    shapes = {(x.rank, y.rank) for _, (x, y) in solved(MatMul, DType.FLOAT32, 200)}
    assert {(1, 1), (2, 2), (4, 2), (5, 5), (3, 1)} <= shapes


def test_domain_forbids_sums_that_overflow():
    a = torch.full((1, 4), 200.0, dtype=torch.float16)
    (term,) = MatMul().domain(a, a.t())
    assert (term > 0).all()


def test_determinants_have_no_range_where_rows_may_cancel():
    from nnfuzz.operators.intervals import Interval

    x = torch.eye(2).double()
    (interval,) = Det().interval(Interval(x - 0.1, x + 0.1))
    assert interval.lo < 0.9 * 0.9 - 0.01 and interval.hi > 1.1 * 1.1 + 0.01
    assert interval.lo > 0


# Attention.


def attention(**attributes):
    usual = {"kv_heads": 1, "groups": 1, "scale": None, "softcap": 0.0, "is_causal": 0, "qk": None}
    return Attention(**{**usual, **attributes})


def waves(*shape):
    return torch.sin(ramp(*shape) * 0.7)


def test_a_row_without_any_key_is_zero_and_not_comparable():
    q, k, v = (waves(1, 1, 2, 4) for _ in range(3))
    mask = torch.tensor([[True, False], [False, False]])
    (y,) = attention().torch(q, k, v, mask)
    assert torch.equal(y[..., 0, :], v[..., 0, :])
    assert (y[..., 1, :] == 0).all()
    (interval,) = admitted(attention(), [q.double(), k.double(), v.double(), mask], [DType.FLOAT32])
    assert interval.mask()[0, 0].all(-1).tolist() == [False, True]
