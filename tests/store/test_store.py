"""What is recorded stays, whatever happens to the process."""

from __future__ import annotations

import sqlite3

import pytest

from nnfuzz.backend.outcome import Brief
from nnfuzz.records.rows import (
    EventRow,
    FindingRow,
    Occurrence,
    TestRow,
)
from nnfuzz.testcase.identity import Numbered


def finding(signature: str, index: int) -> FindingRow:
    return FindingRow(
        signature, Numbered(1, index), "crash", "compile", "toy", "O1", "title", "findings/x"
    )


def test_records_come_back(store):
    row = TestRow(7, "run", 2, {"toy": {"O0": Brief("ok")}}, {"generate": 0.25})
    event = EventRow(Numbered(1, 7), "death", "toy", "compile O1", "SIGSEGV", "killed", "trace")
    store.record(row, (finding("a", 7),), (Occurrence("a", Numbered(1, 7)),), (event,))
    store.record(TestRow(3, "inputs", 2), (), (Occurrence("a", Numbered(1, 3)),))
    assert list(store.tests.rows()) == [TestRow(3, "inputs", 2), row]
    assert {*store.tests.done()} == {3, 7}
    assert store.events.rows() == [event]
    (found,) = store.findings()
    assert (found.signature, found.test.index, found.occurrences) == ("a", 7, 2)
    assert store.occurrences.buckets() == {"finding": 2}


def test_a_record_is_all_or_nothing(store):
    broken = Occurrence("a", Numbered(1, 1), bucket=None)
    with pytest.raises(sqlite3.IntegrityError):
        store.record(TestRow(1, "run", 1), (finding("a", 1),), (broken,))
    assert {*store.tests.done()} == set() and store.findings() == []
    store.record(TestRow(2, "run", 1))
    assert {*store.tests.done()} == {2}
