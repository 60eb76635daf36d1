"""One folder per signature, of the lowest index, whatever the order of arrival."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.experiment.result import Result
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.records.rows import NOT_SHOWN, FindingRow, Occurrence, ReductionRow, TestRow
from nnfuzz.records.schedule import begins
from nnfuzz.store.evidence import Evidence
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.signature import failures

CRASH = Outcome(OutcomeKind.CRASH, Stage.COMPILE, Target("toy", pipeline="O1"), signal="SIGSEGV")
FINE = Outcome(OutcomeKind.OK, Stage.EXECUTE, Target("toy", pipeline="O0"))
(FAILURE,) = failures([FINE, CRASH])


def evidence(index: int, **more) -> Evidence:
    fields = {"outcomes": (FINE, CRASH), "failures": (FAILURE,), **more}
    case = TestCase(Numbered(1, index), NO_GRAPH, b"", {}, {}, {})
    return Evidence(Numbered(1, index), 1, Result(case, **fields))


@pytest.fixture
def announced():
    return []


@pytest.fixture
def recorder(tmp_path, announced):
    def write(folder, failure, shown):
        folder.mkdir(parents=True)
        (folder / "index").write_text(str(shown.test.index))

    with Store.create(tmp_path, {}) as store:
        store.sessions.begin()
        yield Recorder(store, ("abcabcabcabc",), write, announced.append)


def test_the_lowest_index_takes_the_folder(recorder, announced, tmp_path):
    for index in (5, 7, 2, 3):
        recorder.record(evidence(index))
    (row,) = recorder.store.findings()
    assert (row.test.index, row.occurrences) == (2, 4)
    assert (tmp_path / row.folder / "index").read_text() == "2"
    assert [path.name for path in (tmp_path / "findings").iterdir()] == [
        row.folder.partition("/")[2]
    ]
    assert [found.test.index for found in announced] == [5]
    assert recorder.known_in(0) == ["abcabcabcabc"]


def test_what_an_epoch_knows_was_seen_before_the_last_one(recorder):
    recorder.record(evidence(begins(2) + 1))
    signature = FAILURE.signature.hash
    assert [signature in recorder.known_in(epoch) for epoch in (2, 3, 4)] == [False, False, True]


def test_a_finding_is_settled_when_nothing_can_come_before_it(recorder):
    recorder.record(evidence(2))
    (row,) = recorder.unreduced()
    for index, settled in ((0, False), (1, True)):
        recorder.record(evidence(index, failures=()))
        assert recorder.settled(row) == settled


def test_what_does_not_repeat_is_no_finding(recorder, announced):
    recorder.record(evidence(1, failures=(), flaky=(FAILURE,)))
    assert recorder.store.findings() == [] == announced
    assert recorder.store.occurrences.buckets() == {"flaky": 1}
    assert recorder.figures.outcomes["crash"] == 1


def test_figures_are_the_same_after_a_resume(recorder, tmp_path):
    recorder.record(evidence(1, seconds=0.5, comparable=0.25))
    recorder.record(Evidence(Numbered(1, 2), 1, status="inputs"))
    recorder.store.close()
    with Store.open(tmp_path) as store:
        store.sessions.begin()
        again = Recorder(store, (), recorder._write, print)
        assert again.rows.keys() == recorder.rows.keys()
        assert again.store.occurrences.buckets() == {"finding": 1}
        before, after = recorder.figures, again.figures
        assert (after.tests, after.not_run) == (before.tests, before.not_run) == (1, {"inputs": 1})
        assert after.outcomes == before.outcomes
        assert after.phase_ms() == before.phase_ms()


def traced(store: Store) -> tuple[Recorder, int, int]:
    """A recorder of the store, the bytes it keeps, and their peak while it was built.

    It is built twice and the smaller figures count: other threads of the process allocate too.
    """
    sizes: list[tuple[int, int]] = []
    for _ in range(2):
        tracemalloc.start()
        found = Recorder(store, (), lambda *args: None, lambda row: None)
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory())
        tracemalloc.stop()
    kept, peaks = zip(*sizes, strict=True)
    return found, min(kept), min(peaks)


def test_a_signature_takes_no_set_of_its_own(tmp_path):
    """Of many duplicates little more than their keys is in memory: 2 KB each, 4.5 KB before."""
    items = [f"Op{number}(float32,int64)->float32" for number in range(400)]

    def needed(first: int, end: int) -> int:
        with Store.open(tmp_path) as store:
            store.sessions.begin()
            for i in range(first, end):
                name, number = f"{i:012x}", f"{i % 5:012x}"
                test = Numbered(1, i)
                texts = "mismatch", "compare", "toy", "O1", f"toy: wrong value {i}", f"findings/{i}"
                row = FindingRow(name, test, *texts, suspicion=f"at {number}")
                mine = tuple(items[(7 * i + k) % 400] for k in range(22))
                seen = Occurrence(name, test, kind="toy mismatch compare", levels="O1", tried=3)
                store.record(TestRow(i, "run", 1, items=mine), (row,), (seen,))
                told = {"cause": number, "pattern": "Add, Mul", "keys": (f"cause:{number}",)}
                store.reductions.add(ReductionRow(name, before=9, after=2, **told))
            found, size, _ = traced(store)
        assert len(found.rows) == len(found.reductions) == end
        return size

    Store.create(tmp_path, {}).close()
    few = needed(0, 100)
    assert (needed(100, 300) - few) / 200 < 2500


def test_a_resumed_campaign_needs_no_memory_for_each_of_its_tests(tmp_path):
    def needed(first: int, end: int) -> int:
        with Store.open(tmp_path) as store:
            for index in range(first, end):
                row = TestRow(index, "run", 1, variations=("large",))
                store.record(row)
            found, _, peak = traced(store)
        assert found.recorded.length == found.figures.tests == end
        assert found.figures.variations["large"] <= end
        return peak

    Store.create(tmp_path, {}).close()
    few = needed(0, 1000)
    assert needed(1000, 2000) - few < 24_000  # bytes; a set of the indexes alone is 60,000 more


def test_a_finding_whose_script_never_fails_is_flaky(recorder):
    recorder.record(evidence(1))
    signature, test = FAILURE.signature.hash, recorder.unreduced()[0].test
    reason = f"{NOT_SHOWN}: repro.py failed in 0 of 3 runs"
    recorder.reduced(ReductionRow(signature, reason=reason), test)
    assert recorder.findings() == [] and recorder.store.occurrences.buckets() == {"flaky": 1}
    (row,) = recorder.store.occurrences.flaky()
    assert row.title == FAILURE.signature.title
