"""Equations of Einsum."""

from __future__ import annotations

import random

import pytest

from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.equation import labels_of, random_equation, ranks


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
    labels = labels_of(equation, shapes)
    assert (labels.terms, labels.out) == (terms, out)


@pytest.mark.parametrize(
    ("equation", "shapes"), [("ij->i", (3,)), ("i,j->i", (1,)), ("...i,...j->...", (2, 3))]
)
def test_equations_for_other_ranks_are_not(equation, shapes):
    assert labels_of(equation, shapes) is None


def test_drawn_equations_fit_and_cover_what_einsum_can_do():
    found = []
    for seed in range(400):
        draw = Draw(random.Random(seed))
        first, result = draw.integer(1, 5), draw.integer(0, 5)
        equation = random_equation(draw, first, result if seed % 2 else None)
        labels = labels_of(equation, ranks(equation, first))
        assert labels and len(labels.terms[0]) == first and len(labels.out) <= 5
        assert set(labels.out) <= set("".join(labels.terms))
        found.append((equation, labels))
    assert any("->" not in e for e, _ in found) and any("..." in e for e, _ in found)
    assert {len(found.terms) for _, found in found} == {1, 2, 3}
    assert any(len(set(term)) < len(term) for _, labels in found for term in labels.terms)
    assert any(labels.summed for _, labels in found)
