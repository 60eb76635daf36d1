"""What is shown of a campaign is what its file holds, as it grows."""

import json
import shutil
import sqlite3

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.parts.segments import publish
from nnfuzz.records.rows import Record
from nnfuzz.serve import watch as module
from nnfuzz.serve.published import Published
from nnfuzz.serve.watch import GIVEN_UP, GONE, REDUCED, WAITING, Watch
from nnfuzz.store.store import FILE, StoreError
from tests.serve.conftest import EVIL, finding, run_row


@pytest.fixture
def watch(store):
    made = Watch(store.folder, "camp")
    made.look()
    return made


def tiles(watch):
    return {name: value for name, value in watch.snapshot.tiles}


def test_findings_with_their_status(watch):
    told = {row["signature"]: (row["status"], row["occurrences"]) for row in watch.snapshot.rows}
    assert told == {"s2": (REDUCED, 1), "s1": (WAITING, 5), "s3": (GIVEN_UP, 2)}
    assert [row["signature"] for row in watch.snapshot.rows] == ["s2", "s1", "s3"]
    assert tiles(watch)["unique findings"] == "3" and tiles(watch)["tests"] == "1"
    assert tiles(watch)["death events"] == "1"
    assert watch.snapshot.state == "running" and not watch.snapshot.missing
    assert "passes that changed a model" in watch.snapshot.growth


def test_what_is_new_is_read_once(watch, store):
    before = watch.snapshot
    watch.look()
    assert watch.snapshot is before
    for index in (1, 2, 5):
        store.record(Record(run_row(index)))
    watch.look()
    assert tiles(watch)["tests"] == "4" and watch.snapshot.listed == before.listed
    store.record(Record(run_row(4), (finding(4),)))
    watch.look()
    now = watch.snapshot
    assert tiles(watch)["tests"] == "5" and now.listed == before.listed + 1
    assert now.number > before.number and now.drawn > before.drawn
    assert json.loads(json.dumps(now.to_json()))["filters"]["backend"] == ["other", "planted"]


def test_a_large_campaign_is_read_bit_by_bit(watch, store, monkeypatch):
    monkeypatch.setattr(module, "AT_A_TIME", 2)
    for index in range(1, 6):
        store.record(Record(run_row(index)))
    watch.look()
    assert tiles(watch)["tests, still reading"] == "3"
    watch.look()
    watch.look()
    assert tiles(watch)["tests"] == "6"


def test_nothing_is_written(watch, store):
    folder = store.folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    watch.look()
    Watch(folder, "again").look()
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_campaign_that_is_over_or_gone(watch, store):
    store.close()
    (store.folder / "summary.json").write_text("{}")
    watch.look()
    assert watch.snapshot.state == "ended"
    shutil.move(store.folder, store.folder.with_name("elsewhere"))
    watch.look()
    assert "holds no campaign" in watch.snapshot.missing[0] and len(watch.snapshot.rows) == 3
    shutil.move(store.folder.with_name("elsewhere"), store.folder)
    watch.look()
    assert not watch.snapshot.missing
    with pytest.raises(StoreError):
        Watch(store.folder.parent, "none")


def test_a_damaged_campaign_shows_what_there_is(store):
    store.close()
    with sqlite3.connect(store.folder / FILE) as db:
        db.execute("UPDATE tests SET outcomes = '['")
        db.execute("UPDATE reductions SET row = '[' WHERE signature = 's3'")
    db.close()
    watch = Watch(store.folder, "camp")
    watch.look()
    assert any("the tests" in line for line in watch.snapshot.missing)
    assert any("the findings" in line for line in watch.snapshot.missing)
    (store.folder / FILE).write_bytes(b"garbage")
    watch.look()
    assert "not the file of a campaign" in watch.snapshot.missing[0]


def test_a_look_outlives_whatever_happens(watch, store, monkeypatch):
    for error in (OSError(5, "Input/output error"), sqlite3.OperationalError("locked"), KeyError()):

        def broken(folder, error=error):
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(module, "_stamp", broken)
            watch.look()
        assert watch.snapshot.missing and watch.snapshot.state == GONE
        watch.look()
        assert not watch.snapshot.missing and watch.snapshot.state == "running"


def test_no_text_becomes_html(watch):
    now = watch.snapshot
    assert EVIL not in now.growth + now.figures and "<script" not in now.growth + now.figures
    assert EVIL in now.rows[1]["title"]  # escaped where it is shown


def test_published_segments_are_put_together(store, tmp_path, monkeypatch):
    depot = str(tmp_path / "depot")
    with pytest.raises(Unreadable, match="no segments"):
        Published(depot, tmp_path).fetch()
    publish(store.folder, depot)
    published = Published(depot, tmp_path)
    monkeypatch.setattr("nnfuzz.serve.published.LOOK_SECONDS", 0.0)
    published.fetch()
    watch = Watch(published.folder, depot, published.fetch)
    watch.look()
    assert tiles(watch)["tests"] == "1" and len(watch.snapshot.rows) == 3
    store.record(Record(run_row(1)))
    publish(store.folder, depot)
    watch.look()
    assert tiles(watch)["tests"] == "2"
