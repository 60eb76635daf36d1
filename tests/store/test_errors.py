"""Texts of errors in the store."""

from __future__ import annotations

import sqlite3

from nnfuzz.backend.complaint import CompilerError
from nnfuzz.backend.stage import Stage
from nnfuzz.records.rows import (
    ErrorText,
    Record,
    TestRow,
)
from nnfuzz.store.store import FILE


def test_error_texts_come_back_in_whole_and_are_kept_once(store):
    error = CompilerError(Stage.COMPILE, "E", "a line\n" * 900, "trace", bases=("E", "Exception"))
    written = ErrorText.of(error, ("line", "elsewhere"))
    assert written.words == ("line",)
    for index in (1, 2):
        store.record(Record(TestRow(index, "run", 0, errors={("toy", "O0"): written})))
    assert (
        store.tests.errors.of_test(1) == store.tests.errors.of_test(2) == {("toy", "O0"): written}
    )
    assert store.tests.errors.of_test(3) == {}
    with sqlite3.connect(store.folder / FILE) as db:
        assert db.execute("SELECT count(*), max(length(text)) < 300 FROM texts").fetchone() == (
            1,
            1,
        )
