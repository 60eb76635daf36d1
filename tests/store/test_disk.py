"""What a campaign does without when it takes more of the disk than it may."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from nnfuzz.findings.folder import read_finding
from nnfuzz.findings.packed_folder import PACKED, is_packed
from nnfuzz.parts.doctor import problems
from nnfuzz.store.disk import DiskBudget
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import FILE, Store
from tests.upkeep.test_reducing import run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "c"
    run(folder, 10, "fusing", throttle=0)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "c"))


def disk_bytes(folder):
    return sum(path.lstat().st_blocks * 512 for path in [folder, *folder.rglob("*")])


def test_what_is_given_back_is_free_on_the_disk(folder):
    with Store.open(folder) as store:
        for i in range(100):
            store.set_meta(f"filler {i}", "x" * 20_000)
        store.checkpoint()
        large, rows = (folder / FILE).stat().st_size, store.row_bytes()
        store.connection.execute("DELETE FROM meta WHERE key LIKE 'filler%'")
        store.give_back()
        store.checkpoint()
        assert large - (folder / FILE).stat().st_size >= 2_000_000
        assert rows - store.row_bytes() >= 2_000_000


def test_duplicates_are_packed_and_findings_are_not(folder):
    notes = []
    with Store.open(folder) as store:
        rows, (finding,) = store.signatures.rows(), store.findings()
        (duplicate,) = (row for row in rows if row.signature in finding.grouping.duplicates)
        before = read_finding(folder / duplicate.folder).case.digest()
        disk = disk_bytes(folder)
        budget = DiskBudget(store, DiskBudget(store, 0, print).used() - 1, notes.append)
        assert not budget.exceeded(0)
        assert [note for note in notes if "duplicates" in note] == notes != []
        assert is_packed(folder / duplicate.folder) and disk_bytes(folder) < disk
        assert not is_packed(folder / finding.folder)
        assert DiskBudget(store, 1, notes.append).exceeded(0)
        assert not is_packed(folder / finding.folder) and store.signatures.rows() == rows
    assert read_finding(folder / duplicate.folder).case.digest() == before
    assert list(problems(folder)) == []


def test_a_folder_that_cannot_be_packed_stays_and_is_told(folder, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    notes = []
    monkeypatch.setattr("nnfuzz.store.disk.pack_folder", full)
    with Store.open(folder) as store:
        assert DiskBudget(store, 1, notes.append).exceeded(0)
    assert any("No space left on device" in note for note in notes)
    assert list(problems(folder)) == []


def test_a_packed_duplicate_that_turns_out_to_be_none_is_unpacked(folder):
    with Store.open(folder) as store:
        assert DiskBudget(store, 1, print).exceeded(0)
        (finding,) = store.findings()
        store.connection.execute(
            "DELETE FROM reductions WHERE signature = ?", finding.grouping.duplicates
        )
        row = Recorder(store, (), lambda *_: None, lambda row: None).rows[
            finding.grouping.duplicates[0]
        ]
    assert not row.folder.startswith("duplicates/")
    assert not (folder / row.folder / PACKED).exists()
    assert (folder / row.folder / "model.onnx").is_file()
