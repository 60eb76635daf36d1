"""Occurrences of failures in the store."""

from nnfuzz.records.rows import FlakyRow, Occurrence
from nnfuzz.testcase.identity import Numbered

KIND = "toy crash compile"


def occurrence(signature, test, **fields):
    return Occurrence(signature, test, kind=KIND, **fields)


def test_confirmed_failures_are_found_by_test(store):
    table = store.occurrences
    table.add(occurrence("a", Numbered(1, 7)))
    table.add(occurrence("a", Numbered(1, 3), bucket="known"))
    table.add(occurrence("b", Numbered(1, 1), bucket="flaky"))
    assert [table.confirmed_before(index) for index in (3, 4)] == [[], ["a"]]
    assert table.counts_in("known") == {"a": 1}


def test_repetitions_are_added_up(store):
    table = store.occurrences
    for index, repeated in ((1, 0), (2, 2)):
        flaky = {"bucket": "flaky", "title": "crash", "repeated": repeated, "tried": 3}
        table.add(occurrence("b", Numbered(1, index), **flaky))
    assert table.flaky() == [FlakyRow("b", "crash", 2, 2, 6)]
