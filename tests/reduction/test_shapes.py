"""Smaller shapes."""

from __future__ import annotations

from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.passes import applied
from nnfuzz.reduction.shapes import OpenSizes
from nnfuzz.reduction.subject import Inapplicable


def test_every_graph_has_a_symbolic_form(subjects):
    """And what it says of the present sizes is true."""
    for subject in subjects:
        symbolic = OpenSizes(subject.graph)
        same = symbolic.concrete(symbolic.now)
        same.verify()
        assert [repr(n) for n in same.nodes] == [repr(n) for n in subject.graph.nodes]
        assert all(same.type(name).same(v.type) for name, v in subject.graph.values.items())


def test_shrinking_reaches_single_elements(subjects):
    """Nearly all graphs can have all of their dimensions small at once."""
    small = 0
    for subject in subjects:
        before = sum(v.type.numel for v in subject.graph.values.values())
        for cap in (1, 2, 3, 4):
            try:
                made = applied(subject, [Edit("shrinking", "*", [cap, "head"])])
            except Inapplicable:
                continue
            small += sum(v.type.numel for v in made.graph.values.values()) < before
            break
    assert small >= 0.7 * len(subjects)
