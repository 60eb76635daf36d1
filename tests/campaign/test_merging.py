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

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_json
from nnfuzz.campaign.merging import merge
from nnfuzz.cli.campaigns import Request, opened_campaign
from nnfuzz.records.config import ConfigError
from nnfuzz.store.store import FILE

TESTS, PARTS = 70, 3
UNLEARNT = {"throttle": 0, "probe": False}
"""A part learns from its own tests; without learning, parts make the tests of one process."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    for number in range(1, PARTS + 1):
        shard = f"{number}/{PARTS}"
        campaign(folder / str(number), tests=TESTS, shard=shard, **UNLEARNT)
    return [folder / str(number) for number in range(1, PARTS + 1)]


def merged(out, *sources):
    merge([*map(Path, sources)], out).close()
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
    one = campaign(tmp_path / "one", tests=TESTS, **UNLEARNT)
    merged(tmp_path / "c", *parts)
    with sqlite3.connect(tmp_path / "c" / FILE) as db:
        assert dict(db.execute("SELECT idx, digest FROM tests")) == {t[0]: t[2] for t in one[0]}
        found = dict(db.execute("SELECT signature, test FROM findings"))
    assert found == {signature: str(test) for signature, test in one[2].items()}
    mine, its = (read_json(tmp_path / name / "summary.json") for name in ("one", "c"))
    for name in ("tests", "findings", "occurrences", "outcomes", "not_run", "unreduced", "seed"):
        assert its[name] == mine[name], name
    assert mine.keys() - its.keys() <= {"cpu_ms"}
    assert its["config"]["shard"] == ""


def test_order_and_repetition_do_not_matter(parts, tmp_path):
    first, second, third = parts
    whole = merged(tmp_path / "whole", first, second, third)
    again = merged(tmp_path / "again", third, first, second, first)
    for rows, _ in (whole, again):  # numbered as they came
        rows["events"] = sorted(row.partition(",")[2] for row in rows["events"])
    assert again == whole


def test_a_folder_that_is_there_is_left_alone(parts, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Unreadable, match="choose another --out"):
        merge([parts[0]], tmp_path)
    assert [*tmp_path.iterdir()] == [tmp_path / "file"]


def test_the_folder_that_one_is_in_is_a_part(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(parts[0])
    assert merged(tmp_path / "here", ".") == merged(tmp_path / "there", parts[0])


def test_a_folder_may_have_a_name_that_is_no_text(parts, tmp_path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/-\n\xff"))
    shutil.copytree(parts[0], odd)
    assert merged(odd / "whole", odd) == merged(tmp_path / "there", parts[0])


def test_a_merged_campaign_is_not_fuzzed_on(parts, tmp_path):
    merged(tmp_path / "c", parts[0])
    with pytest.raises(ConfigError, match="go on with its parts"):
        opened_campaign(Request(out=tmp_path / "c"), resume=True).__enter__()


def test_links_and_pipes_in_a_finding_are_left_out(parts, tmp_path):
    part = Path(shutil.copytree(parts[0], tmp_path / "part"))
    finding = next((part / "findings").iterdir())
    (finding / "link").symlink_to("/etc/passwd")
    os.mkfifo(finding / "pipe")
    assert merged(tmp_path / "c", part) == merged(tmp_path / "d", parts[0])
