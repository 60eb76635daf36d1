"""A record becomes a row by the names of its fields, and comes back from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.records.rows import HangStatus
from nnfuzz.store.database import column, records
from nnfuzz.testcase.identity import Numbered, TestId


@dataclass(frozen=True)
class Line:
    test: TestId
    status: HangStatus
    late: bool
    items: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


LINE = Line(Numbered(1, 2), HangStatus.FLAKY, True, ("a", "b"), {"x": 3})


def test_a_record_comes_back_from_its_columns():
    row = tuple(map(column, vars(LINE).values()))
    assert row == ("test 1/2", "flaky", 1, "a\nb", '{"x":3}')
    assert list(records(Line, vars(LINE), [row])) == [LINE]


def test_columns_that_are_left_out_have_their_defaults():
    (found,) = records(Line, ("test", "status", "late"), [("test 1/2", "flaky", 0)])
    assert found == Line(Numbered(1, 2), HangStatus.FLAKY, False)


def test_a_column_that_does_not_fit_is_unreadable():
    with pytest.raises(Unreadable, match="names no test"):
        list(records(Line, ("test",), [("nonsense",)]))
