"""The file of a campaign: who opens it, and beside whom."""

from __future__ import annotations

import os
import resource
import sqlite3

import pytest

from nnfuzz.records.rows import (
    TestRow,
)
from nnfuzz.store.database import LOCK, RESCUED, hold
from nnfuzz.store.store import FILE, Store, StoreError


def test_readers_do_not_wait_for_the_writer(store, tmp_path):
    store.record(TestRow(1, "run", 1))
    store.flush()
    with Store.open(tmp_path / "campaign", write=False) as reader:
        assert {*reader.tests.done()} == {1} and reader.config() == {"seed": 1}


def test_a_schema_that_is_no_text_is_refused(store, tmp_path):
    """SQLite quotes it in its message."""
    store.close()
    file = tmp_path / "campaign" / FILE
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CR\xb6ATE TABLE"))
    with pytest.raises(StoreError, match="not the file of a campaign"):
        Store.open(tmp_path / "campaign", write=False)


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough" * 50])
def test_foreign_files_are_refused(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(StoreError, match=r"schema 0|not the file of a campaign"):
        Store.open(tmp_path)


def test_an_empty_folder_is_no_campaign(tmp_path):
    with pytest.raises(StoreError, match="holds no campaign"):
        Store.open(tmp_path)


def test_who_reads_changes_no_file(store):
    def held():
        return {path.name: path.read_bytes() for path in sorted(store.folder.iterdir())}

    store.record(TestRow(1, "run", 1))
    store.flush()
    before = held()
    with Store.open(store.folder, write=False) as reader:
        assert {*reader.tests.done()} == {1}
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.set_meta("a", 1)
        store.record(TestRow(2, "run", 1))
        assert {*reader.tests.done()} == {1}  # as long as it is not kept for good
        store.flush()
        assert {*reader.tests.done()} == {1, 2}
    assert before.keys() == held().keys()
    store.close()
    before = held()
    with Store.open(store.folder, write=False) as reader:
        assert {*reader.tests.done()} == {1, 2}
    assert held() == before


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="holds other files"):
        Store.create(tmp_path, {})
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_leftovers_of_a_killed_start_are_replaced(tmp_path):
    for name in ("campaign.new", "campaign.new-wal", LOCK):
        (tmp_path / name).write_bytes(b"half")
    Store.create(tmp_path, {"seed": 1}).close()
    assert {path.name for path in tmp_path.iterdir()} == {FILE, LOCK}


def test_two_processes_cannot_create_one_campaign(tmp_path):
    with hold(tmp_path), pytest.raises(StoreError, match="running in another process"):
        Store.create(tmp_path, {"seed": 1})
    Store.create(tmp_path, {"seed": 2}).close()
    with pytest.raises(StoreError, match="holds a campaign already"):
        Store.create(tmp_path, {"seed": 3})
    with Store.open(tmp_path) as store:
        assert store.config() == {"seed": 2}
        with pytest.raises(StoreError, match="running in another process"):
            Store.open(tmp_path)


@pytest.mark.parametrize("size", range(0, 1 << 17, 1 << 13))
def test_a_campaign_that_a_full_disk_does_not_hold_is_whole_or_absent(size, tmp_path):
    """Files that may not grow fail as those of a full disk do."""
    folder, (soft, hard) = tmp_path / "c", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        Store.create(folder, {"seed": 1}).close()
    except StoreError as error:
        assert "cannot be" in str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    if folder.exists():
        with Store.open(folder) as store:
            assert store.config() == {"seed": 1}


def delete(file):
    file.unlink()


def replace_whole(file):
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.rename(file)


def cut_off(file):
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)


def flip_bits(file):
    """Of all pages but the first; SQLite wrote them a second ago."""
    data = file.read_bytes()
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(bytes(byte ^ 0x55 for byte in data[4096:]))
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 10**9))


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (delete, "was deleted"),
        (replace_whole, "was replaced"),
        (cut_off, "was cut off"),
        (flip_bits, "was damaged"),
    ],
)
def test_a_file_that_is_lost_in_mid_run_is_told_at_the_next_transaction(damage, what, tmp_path):
    folder = tmp_path / "campaign"
    with Store.create(folder, {"seed": 1}) as store:
        store.set_meta("kept", 7)
        store.flush()
        damage(folder / FILE)
        store.set_meta("last", 8)
        with pytest.raises(StoreError, match=f"{what} while the campaign ran: its rows are in"):
            store.flush()
        store.flush()  # it is told once: the summary can be written
    (folder / RESCUED).rename(folder / FILE)
    assert not [*folder.glob(f"{FILE}-*")]
    with Store.open(folder) as store:
        assert (store.meta("kept"), store.meta("last")) == (7, 8)


def test_what_is_not_in_memory_any_more_is_not_said_to_be_saved(tmp_path):
    folder = tmp_path / "campaign"
    with Store.create(folder, {"seed": 1}) as store:
        store.set_meta("kept", "7" * 10_000)
        store.flush()
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        store.set_meta("last", 8)
        store.flush()
        flip_bits(folder / FILE)
        store.execute("PRAGMA shrink_memory").fetchall()
        with pytest.raises(StoreError, match="was damaged while the campaign ran: its rows are lo"):
            store.set_meta("last", 9)
            store.flush()
        assert not (folder / RESCUED).exists()


def test_a_file_that_somebody_has_touched_is_whole(store):
    """As a reader does that moves the log into the file."""
    store.set_meta("kept", 7)
    os.utime(store.folder / FILE)
    store.flush()
    assert store.meta("kept") == 7
