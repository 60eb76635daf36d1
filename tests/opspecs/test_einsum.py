from __future__ import annotations

import random

import pytest
import torch
from nnfuzz.opspecs.einsum import Det, Einsum
from nnfuzz.opspecs.fold import Col2Im

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.equation import drawn, ranks, read
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, t


@pytest.mark.parametrize(
    ("equation", "shapes", "terms", "out"),
    [
        ("ij,jk->ik", (2, 2), ("ij", "jk"), "ik"),
        ("ba, b", (2, 1), ("ba", "b"), "a"),
        ("...ij,...j->...i", (4, 3), ("01ij", "01j"), "01i"),
        ("...i->i...", (3,), ("01i",), "i01"),
        ("ii->", (2,), ("ii",), ""),
    ],
)
def test_equations_are_read(equation, shapes, terms, out):
    labels = read(equation, shapes)
    assert (labels.terms, labels.out) == (terms, out)


@pytest.mark.parametrize(
    ("equation", "shapes"), [("ij->i", (3,)), ("i,j->i", (1,)), ("...i,...j->...", (2, 3))]
)
def test_equations_for_other_ranks_are_not(equation, shapes):
    assert read(equation, shapes) is None


def test_drawn_equations_fit_and_cover_what_einsum_can_do():
    found = []
    for seed in range(400):
        draw = Draw(random.Random(seed))
        first, result = draw.integer(1, 5), draw.integer(0, 5)
        equation = drawn(draw, first, result if seed % 2 else None)
        labels = read(equation, ranks(equation, first))
        assert labels and len(labels.terms[0]) == first and len(labels.out) <= 5
        assert set(labels.out) <= set("".join(labels.terms))
        found.append((equation, labels))
    assert any("->" not in e for e, _ in found) and any("..." in e for e, _ in found)
    assert {len(found.terms) for _, found in found} == {1, 2, 3}
    assert any(len(set(term)) < len(term) for _, labels in found for term in labels.terms)
    assert any(labels.summed for _, labels in found)


def test_labels_must_agree_in_size():
    op = Einsum(equation="ij,jk->ki")
    op.check(t(2, 3), t(3, 4))
    assert op.type_transfer(t(2, 3), t(3, 4))[0].same(t(4, 2))
    assert op.terms(ramp(2, 3), ramp(3, 4)) == 3
    with pytest.raises(ConstraintError):
        op.check(t(2, 3), t(1, 4))


def test_products_of_int32_stay_int32():
    x = torch.full((1, 2), 2**30, dtype=torch.int32)
    y = Einsum(equation="ij,ij->i").torch(x, torch.full_like(x, 2))
    assert y.dtype is torch.int32 and y.tolist() == [0]


def test_determinants_have_no_range_where_rows_may_cancel():
    from nnfuzz.operators.intervals import Interval

    x = torch.eye(2).double()
    (interval,) = Det().interval(Interval(x - 0.1, x + 0.1))
    assert interval.lo < 0.9 * 0.9 - 0.01 and interval.hi > 1.1 * 1.1 + 0.01
    assert interval.lo > 0


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_blocks_overlap_and_leave_the_image(dtype):
    op = Col2Im(kernel=(2,), strides=(1,), dilations=(2,), begins=(1,), ends=(0,), image=(3,))
    op.check(t(1, 2, 2, dtype=dtype))
    y = op.torch(torch.tensor([[[1.0, 2.0], [4.0, 8.0]]], dtype=dtype.torch))
    assert y.tolist() == [[[2, 4, 8]]]
