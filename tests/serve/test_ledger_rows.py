"""Rows, filters, counts and curves of a ledger's dashboard."""

from dataclasses import replace
from datetime import date

import pytest

from nnfuzz.bugs.bug import BugState
from nnfuzz.bugs.turns import Turn
from nnfuzz.serve.ledger_rows import age_of, bug_rows, filters_of, open_counts, trends
from tests.bugs.conftest import BUG

TODAY = date(2026, 11, 23)
OLD = replace(BUG, title="old", first_seen="2025-01-01", operators=("Add", "Pow"))
FIXED = replace(BUG, title="fixed", state=BugState.FIXED, first_seen="2026-11-22", passes=("CSE",))


def test_open_bugs_stand_first_and_the_newest_of_them_at_the_top():
    bugs = {"numpy/a": FIXED, "numpy/b": OLD, "numpy/c": replace(OLD, first_seen="2026-11-20")}
    rows = bug_rows({**bugs, "numpy/d": BUG}, TODAY)
    assert [row.name[-1] for row in rows] == ["c", "b", "d", "a"]
    assert [row.days for row in rows] == [3, 691, None, 1]
    assert "c29550a8d898" in rows[0].about and "cse" in rows[3].about
    filters = filters_of(rows)
    assert filters["operator"] == ["Add", "Pow"] and filters["life"] == ["closed", "open"]
    assert filters["age"] == ["up to a week", "more than a year", "unknown"]
    assert "system" not in filters
    counts = open_counts(rows)
    assert counts["operator"] == [("Pow", 3), ("Add", 2)] and counts["system"] == [("numpy", 3)]
    assert counts["age"] == [("up to a week", 1), ("more than a year", 1), ("unknown", 1)]


@pytest.mark.parametrize("days, name", [(0, "week"), (31, "month"), (366, "a year"), (367, "more")])
def test_ages_have_names(days, name):
    assert name in age_of(days)


def test_curves_grow_by_turns_of_each_system():
    turns = [Turn(1, "a", "", tests=5, new=1), Turn(2, "b", ""), Turn(3, "a", "", tests=5)]
    found = trends([*turns, Turn(4, "a", "", tests=2, operators=7)])
    assert found["a"]["tests"] == [(0.0, 0.0), (1.0, 5.0), (2.0, 10.0), (3.0, 12.0)]
    assert found["a"]["operators"][-1] == (3.0, 7.0) and "passes" not in found["a"]
    assert found["b"] == {}
