"""A summary comes back from its file, and reads those of older versions."""

from __future__ import annotations

import json

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.records.rows import HangRow
from nnfuzz.store.summary import (
    SUMMARY,
    Changes,
    Summary,
    read_summary,
    write_summary,
)
from nnfuzz.testcase.identity import Numbered

HANG = HangRow(Numbered(1, 19), "toy", "O0", "compile", 30.0, "5i6")
WHOLE = Summary(
    tests=3,
    unconfirmed_hangs=(HANG,),
    regressions=Changes("1.0", "2.0", ("a",)),
    refusals={"cycle": {"toy": {"refused": 3}}},
)


def test_a_summary_comes_back_from_its_file(tmp_path):
    write_summary(tmp_path, WHOLE)
    assert read_summary(tmp_path) == WHOLE


def test_what_only_some_campaigns_have_is_left_out_of_others(tmp_path):
    write_summary(tmp_path, Summary())
    written = json.loads((tmp_path / SUMMARY).read_text())
    assert not {"refusals", "sources"} & written.keys() and written["regressions"] == {}
    assert read_summary(tmp_path) == Summary()


def test_the_summary_of_another_version_is_read_as_far_as_it_is_known(tmp_path):
    (tmp_path / SUMMARY).write_text('{"tests": 9, "not_known_today": [1]}')
    assert read_summary(tmp_path) == Summary(tests=9)
    (tmp_path / SUMMARY).write_text("[]")
    with pytest.raises(Unreadable):
        read_summary(tmp_path)
