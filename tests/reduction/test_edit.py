"""Edits of a case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.reduction.edit import ORDER, Edit, groups
from nnfuzz.reduction.passes import PASSES, applied
from nnfuzz.reduction.subject import Inapplicable, Subject
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.producer import Producer
from tests.reduction.test_passes import propose

FEWER_NODES = {
    "neighbourhoods",
    "prefixes",
    "replacements",
    "bypasses",
    "detours",
    "pairs",
    "constants",
}


def state(subject: Subject) -> tuple:
    return subject.digest(), subject.measure()


@pytest.mark.parametrize("name", [p for p in ORDER if p != "direct"])
def test_edits_are_valid_or_inapplicable(subjects, name):
    """What comes out verifies, has finite values of the declared types, and is a function."""
    fit = 0
    if name == "rewrites":
        form = "direct+times_one#1+function#2+cast_wider#3"
        subjects = [replace(subject, exporter=form) for subject in subjects[:4]]
    if name == "large":  # the other subjects have nothing for it
        producer = Producer(11, CaseConfig(nodes=3, exporter="direct", large=1.0))
        cases = [producer.produce(index) for index in range(3)]
        subjects = [
            Subject(producer.load(c), {**c.inputs, **c.weights}, c.exporter, opset=c.opset)
            for c in cases
        ]
    for subject in subjects:
        before = state(subject)
        edits = propose(subject, name)
        assert [e.key for e in edits] == [e.key for e in propose(subject, name)]
        for edit in edits:
            assert read(Edit, as_json(edit)) == edit
            try:
                made = applied(subject, [edit])
            except Inapplicable:
                continue
            fit += 1
            made.graph.verify()
            for value, type_ in made.graph.values.items():
                array = made.values[value]
                assert array.shape == type_.type.shape
                assert array.dtype == type_.type.dtype.numpy
            assert set(made.params) == {*made.graph.inputs, *made.graph.weights}
            if name in FEWER_NODES:
                assert made.measure() < subject.measure()
                assert len(made.graph.nodes) < len(subject.graph.nodes)
        assert state(subject) == before
    assert fit


def test_merged_edits_are_halved_down_to_single_ones():
    edits = [Edit("numbers", str(i)) for i in range(5)]
    sizes = [len(group) for group in groups(edits, merge=True)]
    assert sizes == [5, 3, 2, 2, 1, 1, 1, 1, 1]
    assert {e for g in groups(edits, True) if len(g) == 1 for e in g} == set(edits)
    assert list(groups([], merge=True)) == []


def test_groups_leave_out_edits_that_no_longer_fit(subjects):
    subject = subjects[0]
    good = next(iter(PASSES["neighbourhoods"].propose(subject)))
    made = applied(subject, [good, Edit("constants", "nobody", "weight")])
    assert made.digest() == applied(subject, [good]).digest()
    with pytest.raises(Inapplicable, match="gone"):
        applied(subject, [Edit("constants", "nobody", "weight")])
