from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.norm import (
    BatchNormalization,
    BatchNormalizationTraining,
    InstanceNormalization,
    LayerNormalization,
    LayerNormalizationStatistics,
    LogSoftmax,
    Softmax,
)
from nnfuzz.opspecs.scaling import GroupNormalization

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.norm import log_shares
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from nnfuzz.operators.rounding import underflow
from tests.opspecs.samples import ramp, solved, t

EPSILON = 1e-3


def test_softmax_adds_up_to_one():
    assert torch.allclose(Softmax(axis=-2).torch(ramp(3, 4)).sum(0), torch.ones(4))
    assert (LogSoftmax(axis=1).torch(ramp(3, 4)) <= 0).all()


def test_layer_normalization_is_pytorch_s():
    x, scale, bias = ramp(2, 3, 4).sin(), ramp(3, 4) + 1, ramp(3, 4)
    op = LayerNormalization(axis=-2, epsilon=EPSILON)
    op.check(t(2, 3, 4), t(3, 4), t(3, 4))
    expected = torch.nn.functional.layer_norm(x, (3, 4), scale, bias, EPSILON)
    assert torch.allclose(op.torch(x, scale, bias), expected, atol=1e-5)
    op.check(t(2, 3, 4), t(4), t(2, 1, 1))
    with pytest.raises(ConstraintError):
        op.check(t(2, 3, 4), t(3))


def test_instance_normalization_is_pytorch_s():
    x, scale, bias = ramp(2, 3, 4).sin(), ramp(3) + 1, ramp(3)
    expected = torch.nn.functional.instance_norm(x, None, None, scale, bias, eps=EPSILON)
    op = InstanceNormalization(epsilon=EPSILON)
    assert torch.allclose(op.torch(x, scale, bias), expected, atol=1e-5)


def test_variance_must_not_be_negative():
    one = torch.ones(2)
    terms = BatchNormalization(epsilon=EPSILON).domain(
        ramp(1, 2, 3), one, one, one, torch.tensor([0.5, -0.5])
    )
    assert [bool((term <= 0).all()) for term in terms] == [False, True, True, True]
    wild = (-5.0, 5.0)
    assert BatchNormalization(epsilon=EPSILON).feasible(wild, wild, wild, wild, (0, 3))
    assert not BatchNormalization(epsilon=EPSILON).feasible(wild, wild, wild, wild, (-3, -1))


@pytest.mark.parametrize("spec", [LayerNormalization, InstanceNormalization])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_radius_covers_float32_with_cancellation(spec, offset):
    generator = torch.Generator().manual_seed(3)
    for op, types in solved(spec, DType.FLOAT32, 30):
        xs = [torch.randn(x.shape, generator=generator) for x in types]
        xs[0] += offset
        wide = [x.double() for x in xs]
        y = op.torch(*wide)
        error = (op.torch(*xs).double() - y).abs()
        assert (error <= op.radius(2.0**-24, y, *wide)).all(), op


def test_single_precision_statistics_are_not_used_for_float64():
    class Emit:
        opset = 20

        def __init__(self):
            self.ops = []

        def __call__(self, op, *inputs, **attributes):
            self.ops.append(op)
            return op

        def const(self, value, dtype):
            return "const"

        def type(self, name):
            return t(2, 3, dtype=self.dtype)

    op = LayerNormalization(axis=1, epsilon=EPSILON)
    for dtype, fused in ((DType.FLOAT32, True), (DType.FLOAT64, False)):
        emit = Emit()
        emit.dtype = dtype
        op.onnx(emit, "x", "scale")
        assert ("LayerNormalization" in emit.ops) == fused


def test_what_an_end_of_an_interval_outweighs_may_be_a_tie():
    huge = torch.tensor([[2.0**66, 2.0**66 + 2.0**20, 0.0]], dtype=torch.float64)
    logs = log_shares(Interval(huge - 2.0**42, huge + 2.0**42), 1)
    for place in (0, 1):
        assert logs.lo[0, place] < -(2.0**42) and logs.hi[0, place] == 0
    assert logs.hi[0, 2] < -(2.0**65)
    alone = log_shares(Interval(huge[:, :1], huge[:, :1]), 1)
    assert alone.lo.item() == alone.hi.item() == 0


@pytest.mark.parametrize("u", [2.0**-24, 2.0**-8])
def test_an_exponential_may_fade_below_twice_the_least_normal_number(u):
    """oneDNN's exp(-87), 1.6e-38, is 2 * 2^-127 * 1.4, and 2^-127 is flushed to zero."""
    x = torch.tensor([36.0, 40.0, 123.0], dtype=torch.float64)
    op = Softmax(axis=0)
    y = op.torch(x)
    off = op.radius(u, y, x) + underflow(u)
    assert y[0] > underflow(u)
    assert (off >= y).tolist() == [True, False, False]
    assert op.radius(2.0**-11, y, x)[0] < 2.0**-24


@pytest.mark.parametrize("spec", [InstanceNormalization, GroupNormalization, BatchNormalization])
def test_a_factor_may_be_flushed_before_it_meets_what_would_make_it_large(spec):
    """scale / sqrt(variance + epsilon), which some compute first, is 2^-160 in the end."""
    x = torch.tensor([[[2.0**41, -(2.0**41)]]], dtype=torch.float64)
    scale, zero, var = (torch.tensor([v], dtype=torch.float64) for v in (2.0**-80, 0.0, 2.0**80))
    vectors = [scale, zero] + [zero, var] * (spec is BatchNormalization)
    op = spec(epsilon=1e-5, **({"num_groups": 1} if spec is GroupNormalization else {}))
    y = op.torch(x, *vectors)
    off = op.radius(2.0**-24, y, x, *vectors)
    assert (off < y.abs() / 1000).all()
    vectors[0] = scale * 2.0**-40
    y = op.torch(x, *vectors)
    assert (op.radius(2.0**-24, y, x, *vectors) >= y.abs()).all()


def test_parameters_of_batch_normalization_may_be_rounded_to_the_type_of_the_input():
    op, x = BatchNormalization(epsilon=EPSILON), torch.ones(1, 1, 1, dtype=torch.float64)
    fine, rough = (torch.tensor([v], dtype=torch.float64) for v in (1 + 2.0**-14, 1.0))
    one, u = torch.ones(1, dtype=torch.float64), 2.0**-11
    y = op.torch(x, one, one, fine, one)
    off = (op.radius(u, y, x, one, one, m, one).item() for m in (fine, rough))
    assert next(off) > next(off) + 2.0**-15


def test_parameters_of_batch_normalization_are_as_precise_as_the_input():
    types = [t(1, 2, dtype=DType.FLOAT32), *[t(2, dtype=DType.FLOAT16)] * 4]
    with pytest.raises(ConstraintError):
        BatchNormalization(epsilon=EPSILON).check(*types)
    BatchNormalization(epsilon=EPSILON).check(t(1, 2, dtype=DType.FLOAT16), *[t(2)] * 4)


def test_layer_normalization_yields_its_statistics_on_demand():
    x = ramp(2, 3).double()
    op = LayerNormalizationStatistics(axis=-1, epsilon=EPSILON, kept=(1, 2))
    y, mean, inverse = op.torch(x, torch.ones(3, dtype=torch.float64))
    assert torch.allclose((x - mean) * inverse, y) and mean.tolist() == [[1.0], [4.0]]
    types = [type_.dtype for type_ in op.type_transfer(t(2, 3, dtype=DType.FLOAT16), t(3))]
    assert types == [DType.FLOAT16, DType.FLOAT32, DType.FLOAT32]


def test_batch_normalization_in_training_moves_its_statistics():
    x, one = ramp(2, 1, 3).double(), torch.ones(1, dtype=torch.float64)
    op = BatchNormalizationTraining(epsilon=EPSILON, momentum=0.5)
    y, mean, var = op.torch(x, one, 0 * one, one, one)
    assert mean.item() == (1 + x.mean()) / 2 and abs(y.mean()) < 1e-9
    assert torch.allclose(var, (1 + x.var(correction=0)) / 2)
