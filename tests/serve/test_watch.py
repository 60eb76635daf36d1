"""What is shown of a campaign is what its file holds, as it grows."""

import json
import os
import shutil
import sqlite3

import pytest

from nnfuzz.records.rows import Record
from nnfuzz.serve import watch as module
from nnfuzz.serve.watch import GIVEN_UP, GONE, REDUCED, WAITING, Watch
from nnfuzz.store.store import FILE, StoreError
from tests.serve.conftest import EVIL, finding, run_row


def tiles(camp):
    return {name: value for name, value in camp.snapshot.tiles}


def test_findings_with_their_status(camp):
    told = {row["signature"]: (row["status"], row["occurrences"]) for row in camp.snapshot.rows}
    assert told == {"s2": (REDUCED, 1), "s1": (WAITING, 5), "s3": (GIVEN_UP, 2)}
    assert [row["signature"] for row in camp.snapshot.rows] == ["s2", "s1", "s3"]
    assert tiles(camp)["unique findings"] == "3" and tiles(camp)["tests"] == "1"
    assert tiles(camp)["death events"] == "1"
    assert camp.snapshot.state == "running" and not camp.snapshot.missing
    assert "Growth" in camp.snapshot.growth


def test_what_is_new_is_read_once(camp, store):
    before = camp.snapshot
    camp.look()
    assert camp.snapshot is before
    for index in (1, 2, 5):
        store.record(Record(run_row(index)))
    camp.look()
    assert tiles(camp)["tests"] == "4" and camp.snapshot.listed == before.listed
    store.record(Record(run_row(4), (finding(4),)))
    camp.look()
    now = camp.snapshot
    assert tiles(camp)["tests"] == "5" and now.listed == before.listed + 1
    assert now.number > before.number and now.drawn > before.drawn
    assert json.loads(json.dumps(now.to_json()))["filters"]["backend"] == ["other", "planted"]


def test_a_large_campaign_is_read_bit_by_bit(camp, store, monkeypatch):
    monkeypatch.setattr(module, "AT_A_TIME", 2)
    for index in range(1, 6):
        store.record(Record(run_row(index)))
    camp.look()
    assert tiles(camp)["tests, still reading"] == "3"
    camp.look()
    camp.look()
    assert tiles(camp)["tests"] == "6"


def test_nothing_is_written(camp, store):
    folder = store.folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    camp.look()
    Watch(folder, "again").look()
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_campaign_that_is_over_or_gone(camp, store):
    store.close()
    (store.folder / "summary.json").write_text("{}")
    camp.look()
    assert camp.snapshot.state == "ended"
    os.utime(store.folder / "summary.json", (0, 1))
    camp._began = 2.0  # a session that began behind the summary
    camp.look()
    assert camp.snapshot.state == "running"
    shutil.move(store.folder, store.folder.with_name("elsewhere"))
    camp.look()
    assert "holds no campaign" in camp.snapshot.missing[0] and len(camp.snapshot.rows) == 3
    shutil.move(store.folder.with_name("elsewhere"), store.folder)
    camp.look()
    assert not camp.snapshot.missing
    with pytest.raises(StoreError):
        Watch(store.folder.parent, "none")


def test_a_damaged_campaign_shows_what_there_is(store):
    store.close()
    with sqlite3.connect(store.folder / FILE) as db:
        db.execute("UPDATE tests SET outcomes = '['")
        db.execute("UPDATE reductions SET row = '[' WHERE signature = 's3'")
    db.close()
    camp = Watch(store.folder, "camp")
    camp.look()
    assert any("the tests" in line for line in camp.snapshot.missing)
    assert any("the findings" in line for line in camp.snapshot.missing)
    (store.folder / FILE).write_bytes(b"garbage")
    camp.look()
    assert "not the file of a campaign" in camp.snapshot.missing[0]


def test_a_look_outlives_whatever_happens(camp, store, monkeypatch):
    for error in (OSError(5, "Input/output error"), sqlite3.OperationalError("locked"), KeyError()):

        def broken(folder, error=error):
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(module, "_stamp", broken)
            camp.look()
        assert camp.snapshot.missing and camp.snapshot.state == GONE
        camp.look()
        assert not camp.snapshot.missing and camp.snapshot.state == "running"


def test_no_text_becomes_html(camp):
    now = camp.snapshot
    assert EVIL not in now.growth + now.figures and "<script" not in now.growth + now.figures
    assert EVIL in now.rows[1]["title"]  # escaped where it is shown
