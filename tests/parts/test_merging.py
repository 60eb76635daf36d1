"""What parts of a campaign hold is there once, whatever order they are put together in."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_epochs import campaign

from nnfuzz.base.untrusted import read_json
from nnfuzz.cli.campaigns import Campaign, Request
from nnfuzz.parts.merging import REPLACED, finish_replacement, merge
from nnfuzz.records.config import ConfigError
from nnfuzz.store.schema import SUSPECTS
from nnfuzz.store.store import FILE, Store
from tests.parts.conftest import PARTS, TESTS, UNLEARNT


def merged(out, *sources):
    merge([*map(Path, sources)], out, print).close()
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
    one, _ = campaign(tmp_path / "one", tests=TESTS, **UNLEARNT)
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


def test_a_finding_that_is_replaced_leaves_no_folder(parts, tmp_path):
    """Regression test: the folder of a suspect stayed, and the newer one could not move there."""
    merged(tmp_path / "c", *parts[1:])
    with Store.open(tmp_path / "c") as store:
        with sqlite3.connect(tmp_path / "c" / FILE) as db:  # what the first part has is earlier
            db.execute("UPDATE findings SET place = place + (1 << 40)")
        (store.folder / SUSPECTS).mkdir(exist_ok=True)
        for row in store.signatures.rows():
            place = f"{SUSPECTS}/{Path(row.folder).name}"
            (store.folder / row.folder).replace(store.folder / place)
            store.signatures.move(row.signature, place)
    merged(tmp_path / "c", parts[0])
    with Store.open(tmp_path / "c") as store:
        rows = {row.folder for row in store.signatures.rows()}
        replaced = [row for row in store.signatures.rows() if row.place < 1 << 40]
    folders = (tmp_path / "c").glob("*/liar-*")
    assert replaced and {str(f.relative_to(tmp_path / "c")) for f in folders} == rows


def test_the_folder_that_one_is_in_is_a_part(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(parts[0])
    assert merged(tmp_path / "here", ".") == merged(tmp_path / "there", parts[0])


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


def test_links_and_pipes_in_a_finding_are_left_out(parts, tmp_path):
    part = Path(shutil.copytree(parts[0], tmp_path / "part"))
    finding = next((part / "findings").iterdir())
    (finding / "link").symlink_to("/etc/passwd")
    os.mkfifo(finding / "pipe")
    assert merged(tmp_path / "c", part) == merged(tmp_path / "d", parts[0])
