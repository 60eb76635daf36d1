"""Indexing: gather, scatter, slices, selection."""

from __future__ import annotations

import io
from contextlib import nullcontext

import numpy as np
import onnx
import pytest
import torch
from nnfuzz.opspecs.gather import GatherElements, OneHot
from nnfuzz.opspecs.index import Gather, Slice
from nnfuzz.opspecs.pad import Pad
from nnfuzz.opspecs.pick import NonZero, Unique
from nnfuzz.opspecs.scatter import (
    ScatterElements,
    ScatterElementsReduce,
    ScatterND,
    ScatterNDReduce,
    TensorScatter,
)
from nnfuzz.opspecs.select import TopK
from onnx.reference import ReferenceEvaluator

from nnfuzz.compare.envelope import admitted
from nnfuzz.ir.dtypes import DType
from nnfuzz.materialize.scoped import quiet
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t


def sliced(start, end, step, style="plain"):
    return Slice(axes=(0,), steps=(step,), starts=(start,), ends=(end,), style=style)


@pytest.mark.parametrize("style", ["plain", "negative", "beyond"])
@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(1, 7, 2), (6, -1, -1), (6, 2, -3), (0, 3, 1), (3, 3, 1), (7, 7, 2), (6, 6, -1)],
)
def test_every_style_says_the_same(style, start, end, step):
    """NumPy reads starts and ends as ONNX does, clamping included."""

    class Emit:
        def __init__(self):
            self.consts = []

        def __call__(self, op, *inputs):
            return op

        def const(self, value, dtype):
            self.consts.append(value)
            return "c"

        def type(self, name):
            return t(7)

    emit = Emit()
    op = sliced(start, end, step, style)
    op.onnx(emit, "x")
    (a,), (b,), _, (s,) = emit.consts
    assert ramp(7).numpy()[a:b:s].tolist() == op.torch(ramp(7)).tolist()


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        (DType.UINT32, -1, False),
        (DType.UINT8, 256, False),
        (DType.INT8, 0.5, False),
        (DType.INT8, -1, True),
        (DType.FLOAT32, float("-inf"), True),
    ],
)
def test_the_constant_of_padding_is_one_that_the_dtype_holds(dtype, value, fits):
    op = Pad(mode="constant", pads=(1, 0), value=value)
    with nullcontext() if fits else pytest.raises(ConstraintError):
        op.check(t(3, dtype=dtype))


def test_padding_is_exact_whatever_the_input():
    x = ramp(2).double()
    (interval,) = Pad(mode="constant", pads=(1, 0), value=5).interval(
        Interval(x, x + 1, torch.tensor([True, False]))
    )
    assert interval.lo.tolist() == [5, 0, 1] and interval.hi.tolist() == [5, 1, 2]
    assert interval.any.tolist() == [False, True, False]


def test_gather_draws_scalar_and_higher_indices():
    ranks = {i.rank for _, (_, i) in solved(Gather, DType.FLOAT32, 60)}
    assert {0, 1, 2} <= ranks


def test_an_index_that_may_round_either_way_makes_either_value_possible():
    off_on = torch.tensor([0.0, 7.0], dtype=torch.float64)
    index = Interval(torch.tensor([0.9, 1.2]), torch.tensor([1.1, 1.3]))
    (interval,) = OneHot(axis=0, depth=2).interval(index, Interval(off_on, off_on))
    assert interval.lo.tolist() == [[0, 0], [0, 7]]
    assert interval.hi.tolist() == [[7, 0], [7, 7]]


def test_masks_move_with_the_elements():
    x, mask = ramp(3).double(), torch.tensor([True, False, False])
    index = torch.tensor([-3, 1])
    (interval,) = GatherElements(axis=0).interval(Interval(x, x + 1, mask), Interval(index, index))
    assert interval.any.tolist() == [True, False]
    assert np.array_equal(interval.hi - interval.lo, [1, 1])


TWICE = torch.tensor([0, 2, -3])


def exact(*tensors):
    return [Interval(x, x) for x in tensors]


def test_elements_that_two_updates_meet_in_are_not_compared():
    """0 and -3 are the same place."""
    op, updates = ScatterElements(axis=0), torch.tensor([7.0, 8.0, 9.0]).double()
    assert op.undefined(*exact(ramp(3).double(), TWICE, updates)).tolist() == [True, False, False]
    (interval,) = admitted(op, [ramp(3).double(), TWICE, updates], [DType.FLOAT32])
    assert interval.mask().tolist() == [True, False, False]
    assert interval.lo[1:].tolist() == [1, 8]


def test_slices_that_two_updates_meet_in_are_not_compared():
    op, indices = ScatterND(depth=1), torch.tensor([[1], [-1]])
    mask = op.undefined(*exact(ramp(2, 2), indices, ramp(2, 2)))
    assert mask.tolist() == [[False, False], [True, True]]


@pytest.mark.parametrize(
    ("reduction", "expected"), [("add", 15), ("mul", 0), ("max", 8), ("min", 0)]
)
def test_reductions_take_what_is_there_and_every_update(reduction, expected):
    op, updates = ScatterElementsReduce(axis=0, reduction=reduction), torch.tensor([7, 5, 8])
    data = torch.tensor([0, 1, 2])
    assert op.torch(data, TWICE, updates)[0] == expected
    assert op.undefined(*exact(data, TWICE, updates)) is None
    nd = ScatterNDReduce(depth=1, reduction=reduction)
    assert nd.torch(data, TWICE.unsqueeze(1), updates)[0] == expected


def test_sums_of_integers_have_no_rounding_error_and_others_grow_with_the_number_of_terms():
    op = ScatterElementsReduce(axis=0, reduction="add")
    data, ones, halves = torch.zeros(2).double(), torch.ones(8).double(), torch.full((8,), 0.3)
    index = torch.zeros(8, dtype=torch.int64)
    u = 2.0**-24
    assert float(op.radius(u, op.torch(data, index, ones), data, index, ones).max()) == 0
    radius = op.radius(u, op.torch(data, index, halves.double()), data, index, halves.double())
    assert radius[0] > 8 * u * 2.4 > radius[1]


def test_the_sign_of_a_product_with_a_factor_around_zero_is_open():
    op = ScatterElementsReduce(axis=0, reduction="mul")
    index = torch.tensor([0])
    data = Interval(torch.tensor([-1.0, 2.0]), torch.tensor([3.0, 2.5]))
    update = torch.tensor([-2.0])
    (interval,) = op.interval(data, Interval(index, index), Interval(update, update))
    assert interval.lo.tolist() == [-6, 2] and interval.hi.tolist() == [6, 2.5]


def test_a_cache_is_written_to_and_wraps_around_where_it_is_circular():
    past, new, start = (
        torch.zeros(2, 3),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([2, 0]),
    )
    op = TensorScatter(axis=1, mode="circular")
    assert op.torch(past, new, start).tolist() == [[2, 0, 1], [3, 4, 0]]
    assert op.torch(past, new).tolist() == [[1, 2, 0], [3, 4, 0]]
    linear = TensorScatter(axis=1, mode="linear")
    types = t(2, 3), t(2, 2), t(2, dtype=DType.INT64)
    assert linear.integer_range(*types)[2] == (0, 1)
    assert op.integer_range(*types)[2] == (0, 2)
    with pytest.raises(ConstraintError):
        linear.check(t(2, 3), t(2, 4))


def top(k, **attributes):
    return TopK(**{"axis": 0, "k": k, "largest": 1, "sorted": 1, **attributes})


@pytest.mark.parametrize("sorted_", [0, 1])
def test_only_places_that_rounding_can_not_turn_over_are_known(sorted_):
    """The second and the third may change places, the first and the last two may not."""
    lo = torch.tensor([9.0, 5.0, 5.05, 1.0, 1.0]).double()
    hi = torch.tensor([9.1, 5.1, 5.15, 1.0, 1.0]).double()
    _, places = top(4, sorted=sorted_).interval(Interval(lo, hi))
    known = (places.lo == places.hi) & ~places.mask()
    assert known.tolist() == ([True] * 4 if not sorted_ else [True, False, False, True])
    _, places = top(2, sorted=sorted_).interval(Interval(lo, hi))
    known = (places.lo == places.hi) & ~places.mask()
    assert known.tolist() == ([False, False] if not sorted_ else [True, False])


def test_equal_elements_of_a_constant_keep_their_order_in_an_export():
    """PyTorch's tracer runs what depends on no input by itself, and its topk is not stable."""

    class Module(torch.nn.Module):
        def forward(self, x):
            values, places = top(6).torch(torch.arange(21) % 3)
            return x + values, places

    buffer = io.BytesIO()
    with quiet():
        torch.onnx.export(Module(), (torch.ones(6),), buffer, dynamo=False, opset_version=20)
    model = onnx.load_from_string(buffer.getvalue())
    places = ReferenceEvaluator(model).run(None, {model.graph.input[0].name: ramp(6).numpy()})[1]
    assert places.tolist() == [2, 5, 8, 11, 14, 17]


def test_an_element_that_may_be_zero_hides_all():
    x = torch.tensor([0.0, 1.0, 2.0])
    for spread, hidden in ((0.5, False), (1.5, True)):
        (interval,) = NonZero(size=2).interval(Interval(x, torch.where(x == 1, x + spread, x)))
        assert not interval.mask().any()
        (interval,) = NonZero(size=2).interval(Interval(torch.where(x == 1, x - spread, x), x))
        assert bool(interval.mask().all()) == hidden


def test_elements_that_may_be_equal_hide_all():
    x = torch.tensor([1.0, 2.0, 2.0])
    op = Unique(axis=None, sorted=1)
    assert not any(
        b.mask().any() for b in op.interval(Interval(x, torch.where(x == 1, x + 0.5, x)))
    )
    assert all(b.mask().all() for b in op.interval(Interval(x, torch.where(x == 1, x + 1, x))))


def test_the_places_that_are_not_zero_may_be_counted_or_added():
    x = torch.tensor([[0, 4], [5, 0]])
    assert NonZero(size=1, closing="shape").torch(x).tolist() == [2, 2]
    assert NonZero(size=1, closing="sum").torch(x).tolist() == [1, 1]
    (count,) = NonZero(size=1, closing="shape").interval(Interval(x - 1, x + 1))
    assert count.mask().all()


@pytest.mark.parametrize("op", [Gather(axis=0), GatherElements(axis=0), ScatterElements(axis=0)])
def test_what_an_undecided_index_moves_is_not_known(op):
    """An imported graph may compute an index, such as ArgMax of nearly equal numbers."""
    x, updates = exact(torch.tensor([5.0, 6.0, 7.0]), torch.tensor([1.0, 2.0]))
    more, at = [updates] * isinstance(op, ScatterElements), torch.tensor([0, 1])
    masked = Interval(at, at, torch.tensor([False, True]))
    for unsure in (Interval(at, torch.tensor([0, 2])), masked):
        lost = op.undefined(x, unsure, *more)
        assert lost.all() if more else lost.tolist() == [False, True]
