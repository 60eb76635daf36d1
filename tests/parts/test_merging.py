"""What parts of a campaign hold is there once, whatever order they are put together in."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sqlite3
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_epochs import PARTS, campaign, in_parts

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_json
from nnfuzz.library.campaign import Campaign, Request
from nnfuzz.parts.depot import Depot
from nnfuzz.parts.merging import REPLACED, MergeError, finish_replacement, merge
from nnfuzz.parts.segments import publish
from nnfuzz.records.config import ConfigError
from nnfuzz.store.store import FILE

TESTS = 70


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    in_parts(folder, tests=TESTS)
    return [folder / str(number) for number in range(1, PARTS + 1)]


def merged(out, *sources):
    merge(sources, out, print).close()
    return content(out)


def content(folder):
    """All rows, and all files of findings."""
    with sqlite3.connect(folder / FILE) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        rows = {name: sorted(map(repr, db.execute(f"SELECT * FROM {name}"))) for name in tables}
    files = {
        path.relative_to(folder): path.read_bytes()
        for place in ("findings", "suspects", "duplicates")
        for path in (folder / place).rglob("*")
        if path.is_file()
    }
    return rows, files


def test_the_whole_is_what_one_process_makes(parts, tmp_path):
    one, _ = campaign(tmp_path / "one", tests=TESTS)
    merged(tmp_path / "c", *parts)
    with sqlite3.connect(tmp_path / "c" / FILE) as db:
        assert dict(db.execute("SELECT idx, digest FROM tests")) == {t[0]: t[2] for t in one[0]}
        found = dict(db.execute("SELECT signature, test FROM findings"))
    assert found == {signature: str(test) for signature, test in one[2].items()}
    mine, its = (read_json(tmp_path / name / "summary.json") for name in ("one", "c"))
    for name in ("tests", "findings", "occurrences", "outcomes", "not_run", "unreduced", "seed"):
        assert its[name] == mine[name], name
    assert mine.keys() - its.keys() <= {"support_tables", "cpu_ms"}
    assert len(its["sources"]) == PARTS and its["config"]["shard"] == ""


def test_order_and_repetition_do_not_matter(parts, tmp_path):
    first, second, third = parts
    whole = merged(tmp_path / "whole", first, second, third)
    assert merged(tmp_path / "other", third, first, second, first) == whole
    assert merged(tmp_path / "again", tmp_path / "whole", second) == whole
    merged(tmp_path / "half", second, third)
    assert merged(tmp_path / "half", first) == whole  # into what is there


def test_the_folder_that_one_is_in_is_a_part(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(parts[0])
    assert merged(tmp_path / "here", ".") == merged(tmp_path / "there", parts[0])


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


def test_a_kill_leaves_one_of_both(parts, tmp_path):
    merged(tmp_path / "c", parts[0])
    old = tmp_path / f"{REPLACED}c"
    (tmp_path / "c").rename(old)
    finish_replacement(tmp_path / "c")
    assert (tmp_path / "c" / FILE).exists() and not old.exists()


def test_a_merged_campaign_is_not_fuzzed_on(parts, tmp_path):
    merged(tmp_path / "c", parts[0])
    with pytest.raises(ConfigError, match="go on with its parts"):
        Campaign.resume(Request(out=tmp_path / "c"), lambda plugins: None)


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


def test_links_and_pipes_in_a_finding_are_left_out(parts, tmp_path):
    part = Path(shutil.copytree(parts[0], tmp_path / "part"))
    finding = next((part / "findings").iterdir())
    (finding / "link").symlink_to("/etc/passwd")
    os.mkfifo(finding / "pipe")
    assert merged(tmp_path / "c", part) == merged(tmp_path / "d", parts[0])
