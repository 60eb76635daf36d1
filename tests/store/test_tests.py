"""Rows of tests in the store."""

from __future__ import annotations

from nnfuzz.backend.outcome import Brief
from nnfuzz.ir.features import Features, NodeFeatures
from nnfuzz.records.rows import (
    Occurrence,
    TestRow,
)
from nnfuzz.testcase.identity import Numbered
from tests.store.test_store import finding


def test_an_index_that_is_redone_counts_once(store):
    for _ in range(2):
        store.record(TestRow(1, "run", 1), (finding("a", 1),), (Occurrence("a", Numbered(1, 1)),))
    assert len(list(store.tests.rows())) == 1
    assert store.findings()[0].occurrences == 1


def test_what_there_is_to_learn_from_tests(store):
    told = {"toy": {"O0": Brief("ok"), "O1": Brief("unsupported", message="no")}}
    told = {"outcomes": told, "exporter": "direct", "failures": {"a": "toy crash compile"}}
    row = TestRow(1, "run", 2, **told, items=("A()->x", "A->B(x)"), digest="0f")
    seen = Occurrence("a", Numbered(1, 1), "known", "toy crash compile")
    flaky = Occurrence("b", Numbered(1, 1), "flaky", "toy crash compile")
    store.record(row, (), (seen, flaky))
    store.record(TestRow(5, "run", 2))
    assert list(store.tests.rows(0, 5)) == [row] and next(store.tests.rows()) == row
    assert store.occurrences.confirmed_before(2) == ["a"]


def test_features_and_times_of_tests(store):
    add = NodeFeatures("Add", "float32,float32", "0badcafe", "2x3,", ())
    parts = Features((add, NodeFeatures("Cast", "int8", "1", "2", ("to=more",))), ((0, 1),))
    store.record(TestRow(1, "run", 1, features=parts))
    store.record(TestRow(2, "fault", 1))
    assert list(store.tests.features()) == [(1, parts)]
    (at, one), (later, two) = store.tests.recorded_after(0.0, -1)
    assert (one, two) == (TestRow(1, "run", 1), TestRow(2, "fault", 1)) and at <= later
    assert [row.index for _, row in store.tests.recorded_after(at, 1)] == [2]
