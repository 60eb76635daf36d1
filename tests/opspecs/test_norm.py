"""Normalisation, losses, reductions and scaling."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.loss import NegativeLogLikelihoodLoss
from nnfuzz.opspecs.norm import (
    BatchNormalization,
    Hardmax,
    InstanceNormalization,
    LayerNormalization,
    Softmax,
)
from nnfuzz.opspecs.reduce import (
    ArgMax,
    ArgMin,
    ReduceL2,
    ReduceLogSum,
    ReduceMax,
    ReduceMean,
    ReduceProd,
    ReduceSum,
)
from nnfuzz.opspecs.scaling import (
    LRN,
    GroupNormalization,
    MeanVarianceNormalization,
)

from nnfuzz.check.instances import OpInstance
from nnfuzz.check.runtimes import one_node
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.norm import log_shares
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from nnfuzz.operators.rounding import underflow
from tests.opspecs.samples import lowered, ramp, solved, t

EPSILON = 1e-3


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
    op = LayerNormalization(axis=1, epsilon=EPSILON)
    for dtype, fused in ((DType.FLOAT32, True), (DType.FLOAT64, False)):
        kinds = lowered(op, 20, t(2, 3, dtype=dtype), t(3, dtype=dtype))
        assert ("LayerNormalization" in kinds) == fused


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


# Losses: rounding errors and intervals.


U = 2.0**-24


def operands(seed: int, classes: int = 5):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4, classes, 3, generator=generator)
    target = torch.randint(-1, classes, (4, 3), generator=generator)
    return x, target, torch.rand(classes, generator=generator) + 0.1


def test_a_mean_needs_a_position_that_counts():
    op = NegativeLogLikelihoodLoss(reduction="mean", ignore_index=-1)
    x, target, weight = operands(1)
    assert all(bool((term <= 0).all()) for term in op.domain(x, target, weight))
    assert not all(bool((term <= 0).all()) for term in op.domain(x, target.fill_(-1), weight))


# Normalisations by groups, norms and neighbourhoods.


@pytest.mark.parametrize(("opset", "fused"), [(20, False), (21, True)])
def test_one_scale_per_channel_came_with_opset_21(opset, fused):
    op = GroupNormalization(num_groups=3, epsilon=1e-3)
    types = t(2, 6, 4), t(6), t(6)
    assert (lowered(op, opset, *types) == ["GroupNormalization"]) == fused
    wide = [x.with_dtype(DType.FLOAT64) for x in types]
    assert "InstanceNormalization" in lowered(op, opset, *wide)


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


def test_margin_is_the_gap_between_the_two_best():
    x = torch.tensor([[1.0, 4.0, 2.5], [7.0, 7.0, 0.0]])
    (gap,) = ArgMax(axis=-1, keepdims=0).margins(x)
    assert gap.tolist() == [1.5, 0.0]
    (gap,) = ArgMin(axis=-1, keepdims=0).margins(x)
    assert gap.tolist() == [1.5, 7.0]


def test_product_domain_bounds_partial_products():
    op = ReduceProd(axes=(0,), keepdims=0)
    x = torch.tensor([1e30, 1e30, 1e-30, 1e-30])
    (term,) = op.domain(x)
    assert term.item() > 0, "the result is 1, but a partial product overflows"
    assert op.domain(x.double())[0].item() < 0


def test_backward_draws_fit_the_rank():
    import random

    from nnfuzz.operators.draw import Draw

    misses = 0
    for seed in range(200):
        draw = Draw(random.Random(seed))
        output = draw.tensor(DType.FLOAT32, draw.integer(0, 4))
        first = draw.tensor(DType.FLOAT32, ReduceSum.input_rank(draw, output.rank))
        op = ReduceSum.draw_backward(draw, first, output)
        (x,) = op.infer_input_types(draw, first, [DType.FLOAT32], output)
        (y,) = op.type_transfer(x)
        misses += y.rank != output.rank
        if y.rank == output.rank and not op.keepdims:
            assert all(a is b for a, b in zip(y.shape, output.shape))
    assert misses < 10


def test_product_of_a_weight_survives_the_torchscript_export():
    import onnx

    from nnfuzz.ir.graph import Graph, Node, Value
    from nnfuzz.materialize.exporters import exporters

    op = ReduceProd(axes=(0,), keepdims=0)
    values = {"w": t(3, 2), "y": t(2)}
    graph = Graph(
        {name: Value(name, type_) for name, type_ in values.items()},
        [Node(op, ("w",), ("y",))],
        weights=["w"],
        outputs=["y"],
    )
    weights = {"w": ramp(3, 2).numpy()}
    model = onnx.load_from_string(exporters()["torchscript"].export(graph, weights, {}, 18))
    assert "ReduceProd" in [node.op_type for node in model.graph.node]


def test_all_axes_are_left_out_in_onnx_and_none_are_named():
    def written(axes, opset):
        op = ReduceMax(axes=axes, keepdims=1)
        model = one_node(OpInstance(op, (t(2, 3),)), op.type_transfer(t(2, 3)), opset)
        return [(n.op_type, len(n.input), {a.name for a in n.attribute}) for n in model.graph.node]

    assert written((0, 1), 18) == [("ReduceMax", 1, {"keepdims"})]
    assert written((-2, -1), 18) == [("ReduceMax", 2, {"keepdims"})]
    assert written((0, 1), 13) == [("ReduceMax", 1, {"keepdims"})]
    assert written((), 18) == [("ReduceMax", 1, {"noop_with_empty_axes"})]
    assert [op for op, *_ in written((), 13)] == ["Unsqueeze", "ReduceMax"]


def test_logarithm_of_a_cancelling_sum_is_out_of_the_domain():
    op = ReduceLogSum(axes=(0,), keepdims=0)
    assert max(term.item() for term in op.domain(torch.tensor([3.0, -2.9999]))) > 0
    assert max(term.item() for term in op.domain(torch.tensor([3.0, -1.0]))) <= 0


def test_what_is_open_in_an_empty_tensor_opens_nothing():
    x = torch.zeros(2, 0, dtype=torch.float64)
    (y,) = ReduceSum(axes=(1,), keepdims=1).interval(Interval(x, x, x.bool()))
    assert not y.mask().any() and y.lo.tolist() == [[0.0], [0.0]]


def test_reductions_of_integers_are_truncated_and_undefined_where_they_do_not_fit():
    x = torch.tensor(
        [[1, 2, 2], [-1, -1, -1], [3, 0, -4], [1 << 20, 1 << 20, 1]], dtype=torch.int32
    )
    held = Interval(x, x)
    mean, product, norm = (
        spec(axes=(1,), keepdims=0) for spec in (ReduceMean, ReduceProd, ReduceL2)
    )
    assert mean.torch(x).tolist()[:3] == [1, -1, 0]
    assert mean.undefined(held).tolist() == [False, False, True, False]
    assert product.torch(x).tolist()[:3] == [4, -1, 0]
    assert product.undefined(held).tolist() == [False, False, False, True]
    assert norm.torch(x).tolist()[:3] == [3, 1, 5]
    assert norm.undefined(held).tolist() == [False, False, False, True]
