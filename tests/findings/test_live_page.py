"""The page of a campaign that runs says what it should, and nothing of a campaign becomes HTML."""

import os
import re
import shutil
import sqlite3

import pytest

from nnfuzz.backend.outcome import Brief
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.base.writing import as_json
from nnfuzz.findings import page
from nnfuzz.findings.page import CampaignReader, html_of
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import EventRow, FindingRow, Occurrence, ReductionRow, TestRow
from nnfuzz.store.store import FILE, Store, StoreError
from nnfuzz.testcase.identity import Numbered

EVIL = "<script>document.title='broken out'</script><img src=x onerror=alert(1)>"


def finding(number, kind="exception", title="", folder="", backend="planted"):
    return FindingRow(
        f"s{number}",
        Numbered(7, number),
        kind,
        "compile",
        backend,
        "O0,O1",
        title or f"{backend}: cannot fuse {number}",
        folder or f"findings/{backend}-{kind}-s{number}",
        found_at=float(number),
    )


def occurrence(row, times=1):
    tests = (Numbered(7, 10_000 + row.index * 10 + n) for n in range(times))
    return [Occurrence(row.signature, test, levels="O0,O1", tried=3) for test in tests]


def run_row(index, kind="ok"):
    outcomes = {"planted": {"O0": Brief("ok"), "O1": Brief(kind)}}
    return TestRow(index, "run", 0, outcomes)


@pytest.fixture
def store(tmp_path):
    config = as_json(CampaignConfig((BackendSpec("planted"),), seed=7, known=(EVIL,)))
    with Store.create(tmp_path / "camp", config) as store:
        store.sessions.begin()
        store.set_meta("versions", {"nnfuzz": "0.1", "planted": EVIL})
        rows = [
            finding(1, title=f"planted: {EVIL}"),
            finding(2, "crash"),
            finding(3, backend="other"),
        ]
        seen = [*occurrence(rows[0], 5), *occurrence(rows[1]), *occurrence(rows[2], 2)]
        store.record(
            run_row(0, "exception"),
            tuple(rows),
            tuple(seen),
            (EventRow(Numbered(7, 0), "death"),),
        )
        store.reductions.add(ReductionRow("s2", "r2", "planted: crash of Relu", "Relu (float32)"))
        store.reductions.add(ReductionRow("s3", reason="it does not fail again"))
        for row in rows:
            (store.folder / row.folder).mkdir(parents=True)
            (store.folder / row.folder / "report.md").write_text(f"# {EVIL}\n")
        store.flush()
        yield store


@pytest.fixture
def reader(store):
    return CampaignReader(store.folder, store.folder / "report.html")


def html(reader):
    return html_of(reader.read(live=True))


def tiles(reader):
    pairs = re.findall(r"<b>([^<]*)</b><span>([^<]*)</span>", html(reader))
    return {name: value for value, name in pairs}


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".sqlite-shm"]
    return {path: path.read_bytes() for path in files}


def test_the_page_shows_the_campaign_and_runs_its_own_script_alone(reader):
    text = html(reader)
    assert "planted: crash of Relu" in text and "unique findings" in text
    assert text.count('class="finding"') == 3 and ">running</span>" in text
    assert EVIL not in text and text.count("<script") == 1 and "<img" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(https?:)?//(?!www\.w3\.org/2000/svg)\w", text.partition("<script>")[0])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert re.search(r"script-src 'sha256-[\w+/=]{44}';", policy) and "default-src 'none'" in policy
    assert "connect-src" not in policy and "cannot be read" in text  # there is no finding.json


def test_each_test_is_read_once_and_no_other_file_is_written(reader, store):
    assert tiles(reader)["tests"] == "1" and tiles(reader)["death events"] == "1"
    for index in (1, 2, 5):
        store.record(run_row(index))
    store.flush()
    before = contents(store.folder)
    assert tiles(reader)["tests"] == "4" and contents(store.folder) == before
    store.record(run_row(4), (finding(4),))
    store.flush()
    assert tiles(reader)["tests"] == "5" and tiles(reader)["unique findings"] == "4"


def test_it_is_written_again_when_something_has_changed_until_the_campaign_ends(
    reader, store, monkeypatch
):
    summary, steps = store.folder / "summary.json", []

    def pause(seconds):
        steps.append(seconds)
        if len(steps) == 2:
            store.record(run_row(1))
            store.flush()
        if len(steps) == 4:
            store.close()
            summary.write_text("{}")

    monkeypatch.setattr(page.time, "sleep", pause)
    shown = list(reader.follow())
    assert [one.summary.tests for one in shown] == [1, 2, 2] and len(steps) == 4
    assert [one.state for one in shown] == ["running", "running", "ended"]
    os.utime(summary, (0, 1))  # of an earlier session
    assert reader.read(live=True).state == "running"
    shutil.move(store.folder, store.folder.with_name("elsewhere"))
    with pytest.raises(StoreError, match="holds no campaign"):
        reader.read(live=True)


def test_a_damaged_campaign_shows_what_there_is(store, reader):
    store.close()
    with sqlite3.connect(store.folder / FILE) as db:
        db.execute("UPDATE tests SET outcomes = '['")
        db.execute("UPDATE findings SET reduction = '[' WHERE signature = 's3'")
    db.close()
    text = html(reader)
    assert "the tests" in text and "Missing" in text and "the findings" in text
    (store.folder / FILE).write_bytes(b"garbage")
    with pytest.raises(StoreError, match="not the file of a campaign"):
        reader.read(live=True)
