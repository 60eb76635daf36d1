from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from nnfuzz.opspecs.index import Gather, Slice, Trilu
from nnfuzz.opspecs.pad import Pad
from nnfuzz.opspecs.scan import CumSum

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, solved, t


def sliced(start, end, step, style="plain"):
    return Slice(axes=(0,), steps=(step,), starts=(start,), ends=(end,), style=style)


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [(1, 6, 2, [1, 3, 5]), (5, -1, -2, [5, 3, 1]), (4, 1, -1, [4, 3, 2]), (0, 7, 3, [0, 3, 6])],
)
def test_slices_walk_both_ways(start, end, step, expected):
    op = sliced(start, end, step)
    op.check(t(7))
    assert op.torch(ramp(7)).tolist() == expected
    assert op.type_transfer(t(7))[0].same(t(len(expected)))


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
    "op", [sliced(4, 3, 1), sliced(0, 8, 1), sliced(7, 0, -1), sliced(0, 3, 0)]
)
def test_slices_that_run_backwards_outside_or_without_a_step_are_refused(op):
    with pytest.raises(ConstraintError):
        op.check(t(7))


@pytest.mark.parametrize(
    ("mode", "pads", "expected"),
    [
        ("constant", (-1, 2), [1, 2, 9, 9]),
        ("constant", (1, -2), [9, 0]),
        ("reflect", (2, 1), [2, 1, 0, 1, 2, 1]),
        ("edge", (2, 4), [0, 0, 0, 1, 2, 2, 2, 2, 2]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.uint8])
def test_padding(mode, pads, expected, dtype):
    op = Pad(mode=mode, pads=pads, value=9)
    op.check(t(3))
    assert op.torch(ramp(3).to(dtype)).tolist() == expected


@pytest.mark.parametrize(
    ("mode", "pads"), [("reflect", (3, 0)), ("edge", (-1, 0)), ("constant", (-2, -2))]
)
def test_impossible_padding_is_refused(mode, pads):
    with pytest.raises(ConstraintError):
        Pad(mode=mode, pads=pads, value=0).check(t(3))


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


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_gather_counts_negative_indices_from_the_back(dtype):
    data, indices = ramp(2, 3), torch.tensor([[-1, 0], [2, -3]], dtype=dtype)
    op = Gather(axis=-1)
    expected = np.take(data.numpy(), indices.numpy(), axis=-1)
    assert np.array_equal(op.torch(data, indices).numpy(), expected)
    scalar = torch.tensor(-2, dtype=dtype)
    assert op.torch(data, scalar).tolist() == [1.0, 4.0]
    assert op.integer_range(t(2, 3), t(2, dtype=DType.INT64)) == (None, (-3, 2))
    assert Gather.inputs[1].index


def test_gather_draws_scalar_and_higher_indices():
    ranks = {i.rank for _, (_, i) in solved(Gather, DType.FLOAT32, 60)}
    assert {0, 1, 2} <= ranks


def test_triangles_keep_bools():
    x = torch.ones(3, 3, dtype=torch.bool)
    assert Trilu(k=1, upper=1).torch(x).sum() == 3
    assert Trilu(k=-1, upper=0).torch(x).sum() == 3


@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [(0, 0, [1, 3, 6]), (1, 0, [0, 1, 3]), (0, 1, [6, 5, 3]), (1, 1, [5, 3, 0])],
)
def test_running_sums(exclusive, reverse, expected):
    op = CumSum(axis=-1, exclusive=exclusive, reverse=reverse)
    assert op.torch(torch.tensor([1, 2, 3], dtype=torch.int32)).tolist() == expected
