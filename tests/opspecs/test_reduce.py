from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.reduce import (
    ArgMax,
    ArgMin,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
)

from nnfuzz.check.instances import OpInstance
from nnfuzz.check.reference_implementations import one_node
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t


def test_sums_wrap_around_in_their_own_type():
    op = ReduceSum(axes=(0,), keepdims=0)
    x = torch.full((2,), 2**31 - 1, dtype=torch.int32)
    assert op.torch(x).dtype is torch.int32
    assert op.torch(x).item() == -2


def test_negative_axes_and_kept_dimensions():
    op = ReduceMean(axes=(-3, -1), keepdims=1)
    assert op.type_transfer(t(2, 3, 4))[0].same(t(1, 3, 1))
    assert torch.equal(op.torch(ramp(2, 3, 4)), ramp(2, 3, 4).mean((0, 2), keepdim=True))


@pytest.mark.parametrize("axes", [(0, -3), (3,)])
def test_repeated_or_missing_axes_are_refused(axes):
    with pytest.raises(ConstraintError):
        ReduceSum(axes=axes, keepdims=0).check(t(2, 3, 4))


@pytest.mark.parametrize(("spec", "first"), [(ArgMax, 1), (ArgMin, 0)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.uint8, torch.int64])
def test_ties_go_to_the_first(spec, first, dtype):
    x = torch.tensor([0, 3, 0, 3, 3, 0] * 20, dtype=dtype)
    assert spec(axis=0, keepdims=0).torch(x).item() == first


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


def test_radius_covers_float32():
    for op, types in solved(ReduceSum, DType.FLOAT32, 40):
        x = torch.randn(types[0].shape, generator=torch.Generator().manual_seed(1))
        y = op.torch(x.double())
        assert ((op.torch(x).double() - y).abs() <= op.radius(2.0**-24, y, x.double())).all()


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


@pytest.mark.parametrize("spec", [ReduceSum, ReduceSumSquare, ReduceLogSumExp])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_without_axes_elements_stay_alone(spec, keepdims):
    x = ramp(2, 3) + 1
    op = spec(axes=(), keepdims=keepdims)
    op.check(t(2, 3))
    expected = x * x if spec is ReduceSumSquare else x
    assert torch.equal(op.torch(x), expected)
    assert op.type_transfer(t(2, 3))[0].same(t(2, 3))


def test_all_axes_are_left_out_in_onnx_and_none_are_named():
    def lowered(axes, opset):
        op = ReduceMax(axes=axes, keepdims=1)
        model = one_node(OpInstance(op, (t(2, 3),)), op.type_transfer(t(2, 3)), opset)
        return [(n.op_type, len(n.input), {a.name for a in n.attribute}) for n in model.graph.node]

    assert lowered((0, 1), 18) == [("ReduceMax", 1, {"keepdims"})]
    assert lowered((-2, -1), 18) == [("ReduceMax", 2, {"keepdims"})]
    assert lowered((0, 1), 13) == [("ReduceMax", 1, {"keepdims"})]
    assert lowered((), 18) == [("ReduceMax", 1, {"noop_with_empty_axes"})]
    assert [op for op, *_ in lowered((), 13)] == ["Unsqueeze", "ReduceMax"]


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
