"""Packed tests are those that they were, wherever they are read."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import zlib
from pathlib import Path

import pytest

from nnfuzz.store.schema import OLDEST, SCHEMA
from nnfuzz.store.store import StoreError

sys.path.insert(0, str(Path(__file__).parent))

from test_epochs import campaign

from nnfuzz.parts.doctor import problems
from nnfuzz.parts.merging import merge
from nnfuzz.parts.segments import publish
from nnfuzz.store import packed
from nnfuzz.store.disk import DiskBudget
from nnfuzz.store.store import FILE, Store
from tests.store.conftest import TESTS, make_older


@pytest.fixture(autouse=True)
def small_packs(monkeypatch):
    monkeypatch.setattr(packed, "PACKED", 16)
    monkeypatch.setattr(packed, "LEAST", 4)


def read(store):
    """All that is asked of tests."""
    lines = [(i, line.at, line.status, line.outcomes) for i, line in store.lines()]
    some = [i for i, _ in store.lines(first=20, most=7)]
    tests = [(t.index, t.digest, t.items, t.seconds, t.epoch) for t in store.tests.rows()]
    counts = [store.tests.count(first, first + 10) for first in range(0, TESTS, 7)]
    return (
        tests,
        lines,
        some,
        {*store.tests.done()},
        [(t.index, t.digest) for t in store.tests.rows()],
        store.observed(5, 70),
        counts,
    )


def packed_whole(store):
    return sum(iter(lambda: store.tests.packs.pack(10_000), 0))


def copy(made, name, to):
    return Path(shutil.copytree(made[0] / name, to / "c"))


def test_packed_tests_are_read_as_before(made, tmp_path):
    folder = copy(made, "whole", tmp_path)
    with Store.open(folder) as store:
        before, findings = read(store), store.findings()
        failed = {test.index for _, test, _, _ in store.occurrences.rows()}
        count = packed_whole(store)
        left = {row[0] for row in store.connection.execute("SELECT idx FROM tests")}
        assert count == TESTS - len(left) > 40 and failed - {None} <= left
        assert read(store) == before and store.findings() == findings
    with Store.open(folder, write=False) as store:
        assert read(store) == before
    assert list(problems(folder)) == []


def test_a_resumed_campaign_learns_from_packed_tests(made, tmp_path):
    folder = copy(made, "part", tmp_path)
    with Store.open(folder) as store:
        assert packed_whole(store) > 20
    assert campaign(folder, tests=TESTS)[0] == made[1]


def test_parts_are_merged_and_published_test_by_test(made, tmp_path):
    folder = copy(made, "whole", tmp_path)
    with Store.open(folder) as store:
        before = read(store)
        packed_whole(store)
    publish(folder, str(tmp_path / "depot"))
    sources = [folder, made[0] / "part", str(tmp_path / "depot")]
    with merge(sources, tmp_path / "out", print) as store:
        tests, *_ = read(store)
        assert [test[:4] for test in tests] == [test[:4] for test in before[0]]


def other_types(store):
    """A whole pack, but for the type of an index."""
    (rows,) = store.connection.execute("SELECT rows FROM packed ORDER BY first").fetchone()
    columns = json.loads(zlib.decompress(rows))
    return zlib.compress(json.dumps([[*map(str, columns[0])], *columns[1:]]).encode())


def cut_off(store):
    (rows,) = store.connection.execute("SELECT rows FROM packed ORDER BY first").fetchone()
    return rows[: len(rows) // 2]


def twice_the_same(store):
    """A row comes twice."""
    (rows,) = store.connection.execute("SELECT rows FROM packed ORDER BY first").fetchone()
    columns = json.loads(zlib.decompress(rows))
    return zlib.compress(json.dumps([[*c[:1], *c[:-1]] for c in columns]).encode())


@pytest.mark.parametrize("data", [lambda store: b"\0", cut_off, other_types, twice_the_same])
def test_a_damaged_pack_is_run_again(made, tmp_path, data):
    folder = copy(made, "part", tmp_path)
    with Store.open(folder) as store:
        whole = {*store.tests.done()}
        packed_whole(store)
        query = "UPDATE packed SET rows = ? WHERE first = (SELECT min(first) FROM packed)"
        store.connection.execute(query, [data(store)])
    for problem in problems(folder):
        assert problem.description == "1 pack of old tests that cannot be read"
        problem.mend()
    with Store.open(folder) as store:
        assert len(whole - {*store.tests.done()}) == 16


WRONG = {
    "an index that is not there": "UPDATE packed SET indexes = indexes || ' 70-79'",
    "no index": "UPDATE packed SET indexes = ''",
    "not even numbers": "UPDATE packed SET indexes = 'all'",
    "a last one too high": "UPDATE packed SET last = last + 5",
    "a first one too low": "UPDATE packed SET first = first - 1",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_pack_is_noted_to_hold_is_what_it_holds(made, tmp_path, wrong):
    folder = copy(made, "part", tmp_path)
    with Store.open(folder) as store:
        packed_whole(store)
        before = read(store)
        store.connection.execute(f"{WRONG[wrong]} WHERE first = (SELECT max(first) FROM packed)")
    for problem in problems(folder):
        assert problem.description == "1 pack of old tests with others than noted"
        problem.mend()
    assert list(problems(folder)) == []
    with Store.open(folder) as store:
        assert read(store) == before


def test_a_pack_that_is_missing_is_run_again(made, tmp_path):
    folder = copy(made, "part", tmp_path)
    with Store.open(folder) as store:
        packed_whole(store)
        store.connection.execute("DELETE FROM packed WHERE first = (SELECT min(first) FROM packed)")
    for problem in problems(folder):
        assert "without its test" in problem.description
        problem.mend()
    tests, avoided, findings, _ = campaign(folder, tests=TESTS)[0]
    assert (tests, avoided, findings) == made[1][:3]


def test_a_damaged_file_with_packs_is_rescued(made, tmp_path):
    folder = copy(made, "part", tmp_path)
    with Store.open(folder) as store:
        packed_whole(store)
        before = read(store)
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'texts'"
        (root,) = store.connection.execute(query).fetchone()
        (size,) = store.connection.execute("PRAGMA page_size").fetchone()
        store.checkpoint()
    data = bytearray((folder / FILE).read_bytes())
    data[(root - 1) * size : root * size] = bytes(size)
    (folder / FILE).write_bytes(data)
    for problem in problems(folder):
        problem.mend()
    assert list(problems(folder)) == []
    with Store.open(folder) as store:
        assert read(store) == before


def test_a_campaign_goes_on_under_its_budget(made, tmp_path):
    folder, notes = copy(made, "whole", tmp_path), []
    with Store.open(folder) as store:
        size = store.row_bytes()
        assert DiskBudget(store, 1, notes.append).exceeded(10_000)
        assert store.row_bytes() < size
    told = [note.partition(" tests that agree ")[2] for note in notes]
    assert told[:2] == ["lose their statistics", "are packed"] and "--resume" in notes[2]


@pytest.mark.parametrize("schema", range(OLDEST, SCHEMA))
def test_a_campaign_of_an_older_version_goes_on(made, tmp_path, schema):
    folder = copy(made, "part", tmp_path)
    make_older(folder, schema)
    data = (folder / FILE).read_bytes()
    with Store.open(folder, write=False) as store:
        before = read(store)
    assert (folder / FILE).read_bytes() == data
    with Store.open(folder) as store:
        assert read(store) == before and packed_whole(store)
    with Store.open(folder, write=False) as store:
        assert read(store) == before
    db = sqlite3.connect(folder / FILE)
    db.executescript(f"PRAGMA user_version = {SCHEMA + 1}")
    db.close()
    with pytest.raises(StoreError, match="schema"):
        Store.open(folder, write=False)
