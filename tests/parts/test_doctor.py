"""A campaign's folder is looked through and mended, and no finding is thrown away."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))

from test_epochs import campaign

from nnfuzz.cli.main import application
from nnfuzz.parts.doctor import DAMAGED, ORPHANS, RESCUED, problems
from nnfuzz.parts.merging import REPLACED, merge
from nnfuzz.store.disk import DiskBudget
from nnfuzz.store.rescue import damage
from nnfuzz.store.schema import LOCK
from nnfuzz.store.store import FILE, Store, StoreError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "c"
    campaign(folder, tests=60)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "c"))


def found(folder):
    return [problem.description for problem in problems(folder)]


def repaired(folder):
    told = []
    for problem in problems(folder):
        told.append(problem.description)
        problem.mend()
    assert found(folder) == []
    return told


def doctor(*args):
    done = CliRunner().invoke(application(), ["doctor", *map(str, args)])
    return done.exit_code, done.output


def test_settings_that_cannot_be_resumed_are_told(folder):
    with Store.open(folder) as store:
        store.set_meta("config", {**store.config(), "workers": "many"})
    code, output = doctor(folder, "--repair")
    assert code == 1 and "--resume refuses" in output and "in order" not in output


def test_a_compiler_that_is_gone_is_told(folder):
    with Store.open(folder) as store:
        config = store.config()
        config["backends"] = [{**config["backends"][0], "name": "nowhere", "plugins": []}]
        store.set_meta("config", config)
    assert any("nowhere" in what for what in found(folder))


def test_a_campaign_is_in_order(folder):
    assert doctor(folder) == (0, f"{folder} is in order\n")
    with Store.open(folder), pytest.raises(StoreError, match="running in another process"):
        found(folder)
    with pytest.raises(StoreError, match="holds no campaign"):
        found(folder.parent)


def test_a_finding_that_is_gone_is_forgotten_until_it_occurs_again(folder):
    with Store.open(folder) as store:
        first, *others = store.signatures.rows()
        occurrences = store.occurrences.buckets()
    shutil.rmtree(folder / first.folder)
    assert doctor(folder)[0] == 1
    assert repaired(folder) == [f"1 finding without folder: {first.folder}"]
    with Store.open(folder) as store:
        assert [row.signature for row in store.signatures.rows()] == [
            row.signature for row in others
        ]
        assert store.occurrences.buckets() == occurrences


def test_folders_are_followed_or_put_aside(folder):
    with Store.open(folder) as store:
        row = store.signatures.rows()[0]
    name = Path(row.folder).name
    (folder / "duplicates").mkdir(exist_ok=True)
    shutil.move(folder / row.folder, folder / "duplicates" / name)
    shutil.copytree(folder / "duplicates" / name, folder / "findings" / "foreign")
    (folder / "findings" / ".partial-x").mkdir()
    told = repaired(folder)
    assert [text.partition(":")[0] for text in told] == [
        "1 leftover of killed writers",
        "1 finding elsewhere than noted",
        "1 folder of no finding",
    ]
    assert (folder / ORPHANS / "foreign" / "finding.json").is_file()
    with Store.open(folder) as store:
        assert store.signatures.rows()[0].folder == f"duplicates/{name}"


def test_rows_without_sense_are_removed(folder):
    with sqlite3.connect(folder / FILE) as db:
        db.execute("DELETE FROM tests WHERE idx = 7")
        db.execute("UPDATE tests SET outcomes = '[' WHERE idx = 9")
        db.execute("INSERT INTO avoided VALUES (99, 'Relu', 'x', 'y', 1.0)")
    told = repaired(folder)
    assert any("without its test" in text for text in told)
    assert "1 restraint without its epoch" in told
    assert "1 test that cannot be read: 9" in told
    with Store.open(folder) as store:
        assert {*range(60)} - {*store.tests.done()} == {7, 9}


def test_what_can_be_read_of_a_damaged_file_is_kept(folder):
    with Store.open(folder) as store:
        before, rows = store.tests.count(), store.signatures.rows()
    data = bytearray((folder / FILE).read_bytes())
    page = int.from_bytes(data[16:18], "big")
    with sqlite3.connect(folder / FILE) as db:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'features'"
        root = db.execute(query).fetchone()[0]
    data[(root - 1) * page : root * page] = bytes(page)
    (folder / FILE).write_bytes(data)
    assert damage(folder / FILE)
    with pytest.raises(StoreError, match="nnfuzz doctor --repair"):
        Store.open(folder)
    told = repaired(folder)
    assert told[0].startswith(f"{FILE} is damaged")
    assert (folder / DAMAGED).read_bytes() == bytes(data)
    with Store.open(folder) as store:
        assert store.tests.count() == before and store.signatures.rows() == rows


def test_a_half_merged_epoch_is_merged_again(folder, tmp_path):
    out = tmp_path / "whole"
    merge([folder], out, print).close()
    with Store.open(out, write=False) as store:
        before = [
            (t.index, t.digest, store.restraints.settings_in(t.epoch)) for t in store.tests.rows()
        ]
    with sqlite3.connect(out / FILE) as db:
        query = "SELECT epoch FROM tests GROUP BY epoch ORDER BY count(*) LIMIT 1"
        (epoch,) = db.execute(query).fetchone()
        db.execute("DELETE FROM epochs WHERE id = ?", [epoch])
        db.execute("DELETE FROM avoided WHERE epoch = ?", [epoch])
    (told,) = repaired(out)
    assert "of epochs that are half merged" in told
    with merge([folder], out, print) as store:
        after = [
            (t.index, t.digest, store.restraints.settings_in(t.epoch)) for t in store.tests.rows()
        ]
    assert after == before and list(problems(out)) == []


def test_what_was_interrupted_is_ended(folder):
    (folder / FILE).rename(folder / RESCUED)
    assert repaired(folder) == ["a repair was interrupted"]
    old = folder.with_name(f"{REPLACED}c")
    folder.rename(old)
    assert repaired(folder)[0].startswith("nnfuzz merge was interrupted")
    assert json.loads((folder / "summary.json").read_text())["tests"] and not old.exists()


def test_what_only_statistics_need_goes_first_and_findings_never(folder):
    notes = []
    with Store.open(folder) as store:
        rows, failed = store.signatures.rows(), {t.index for _, t, _, _ in store.occurrences.rows()}
        tests = list(store.tests.rows())
        used = DiskBudget(store, 0, notes.append).used()
        assert not DiskBudget(store, used, notes.append).exceeded(10_000) and not notes
        assert not DiskBudget(store, used - 1, notes.append).exceeded(10_000)
        assert {index for index, _ in store.tests.features()} <= failed
        assert DiskBudget(store, 1, notes.append).exceeded(10_000)
        assert [note.partition(":")[0] for note in notes] == ["the setting disk is reached"] * len(
            notes
        )
        assert store.signatures.rows() == rows
        assert [t.digest for t in store.tests.rows()] == [t.digest for t in tests]
    assert found(folder) == []


def test_a_lock_that_is_a_pipe_is_refused(folder):
    (folder / LOCK).unlink()
    os.mkfifo(folder / LOCK)
    with pytest.raises(StoreError, match=LOCK):
        Store.open(folder)
    reader = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(StoreError, match="no regular file"):
        Store.open(folder)
    os.close(reader)
