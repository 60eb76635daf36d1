"""Segments that nodes publish."""

from __future__ import annotations

import hashlib
import io
import shutil
import sqlite3
import zipfile

import pytest
from test_epochs import PARTS, campaign

from nnfuzz.base.reading import Unreadable
from nnfuzz.parts.depot import Depot
from nnfuzz.parts.merging import MergeError, merge
from nnfuzz.parts.segments import publish
from nnfuzz.store.store import FILE
from tests.parts.conftest import TESTS
from tests.parts.test_merging import merged


def test_what_nodes_have_published_is_merged(parts, tmp_path):
    depot, whole = str(tmp_path / "depot"), merged(tmp_path / "whole", *parts)
    names = [publish(part, depot) for part in parts]
    assert len({*names}) == PARTS
    assert [publish(part, depot) for part in parts] == [None] * PARTS
    assert merged(tmp_path / "c", depot) == whole


def test_a_node_publishes_what_is_new(tmp_path):
    part, depot = tmp_path / "part", str(tmp_path / "depot")
    campaign(part, stop=20)
    first = publish(part, depot)
    campaign(part, tests=40)
    second = publish(part, depot)
    sizes = [(tmp_path / "depot" / name).stat().st_size for name in (first, second)]
    assert sizes[1] < 2 * sizes[0]
    assert merged(tmp_path / "c", depot) == merged(tmp_path / "d", part)


def rows_of(depot, name):
    """Of each table of a segment."""
    with zipfile.ZipFile(depot / name) as archive:
        archive.extract(FILE, depot)
    with sqlite3.connect(depot / FILE) as db:
        tables = ("tests", "occurrences", "repeats", "probes", "events", "epochs")
        return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


def test_a_segment_holds_what_is_new_and_no_more(tmp_path):
    part, depot = tmp_path / "part", tmp_path / "depot"
    sizes, tests = [], 0
    for stop in (20, 40, 60):
        campaign(part, stop=stop, tests=TESTS)
        sizes.append(rows_of(depot, publish(part, str(depot))))
    with sqlite3.connect(part / FILE) as db:
        for table in ("tests", "occurrences", "repeats"):
            (tests,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert sum(size[table] for size in sizes) == tests, table
    assert sizes[2]["events"] + sizes[2]["probes"] == 0


def test_merging_again_reads_what_is_new(tmp_path, monkeypatch):
    part, depot, read = tmp_path / "part", str(tmp_path / "depot"), []
    get = Depot.get
    monkeypatch.setattr(Depot, "get", lambda self, name: read.append(name) or get(self, name))
    campaign(part, stop=20, tests=TESTS)
    first = publish(part, depot)
    merged(tmp_path / "c", depot)
    campaign(part, stop=40, tests=TESTS)
    second = publish(part, depot)
    found = merged(tmp_path / "c", depot)
    assert merged(tmp_path / "c", depot) == found
    assert read == [first, second]
    assert found == merged(tmp_path / "d", depot) == merged(tmp_path / "e", part)
    campaign(part, tests=TESTS)
    merged(tmp_path / "e", part)  # a campaign that has gone on
    publish(part, depot)
    assert merged(tmp_path / "e", part) == merged(tmp_path / "c", depot)


def test_what_is_damaged_or_foreign_is_refused(parts, tmp_path):
    depot = tmp_path / "depot"
    name = publish(parts[0], str(depot))
    data = bytearray((depot / name).read_bytes())
    data[len(data) // 2] ^= 1
    (depot / name).write_bytes(data)
    with pytest.raises(ValueError, match="is damaged"):
        merge([depot], tmp_path / "c", print)
    with pytest.raises(MergeError, match="holds no segments"):
        merge([tmp_path / "nowhere"], tmp_path / "c", print)
    campaign(tmp_path / "other", tests=4, throttle=7)
    with pytest.raises(MergeError, match="differ in throttle"):
        merge([parts[0], tmp_path / "other"], tmp_path / "c", print)
    shutil.copytree(parts[0], tmp_path / "changed")
    with sqlite3.connect(tmp_path / "changed" / FILE) as db:
        (index,) = db.execute("SELECT min(idx) FROM tests").fetchone()
        db.execute("UPDATE tests SET digest = 'x' WHERE idx = ?", [index])
    with pytest.raises(MergeError, match=f"different test cases of index {index}"):
        merge([parts[0], tmp_path / "changed"], tmp_path / "c", print)
    with pytest.raises(MergeError, match="no merged one"):
        merge([parts[0]], parts[1], print)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("member", ["../x", "/x", "other", "findings/../../x", "findings"])
def test_a_segment_writes_nowhere_else(tmp_path, member):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, b"1")
    name = hashlib.sha256(buffer.getvalue()).hexdigest() + ".segment.zip"
    Depot(str(tmp_path / "depot")).put(name, buffer.getvalue())
    with pytest.raises(Unreadable):
        merge([tmp_path / "depot"], tmp_path / "in" / "c", print)
    assert not (tmp_path / "x").exists() and not any((tmp_path / "in").iterdir())
