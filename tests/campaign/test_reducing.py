"""Campaigns that reduce their findings, merge those that are one, and avoid what keeps failing."""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import drive
from stub_reducer import cause_of

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.reducing import Reducer
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.records.rows import FindingRow, ReductionRow
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import Store
from nnfuzz.store.suspicions import merged
from nnfuzz.testcase.identity import Numbered


class Notes(Silent):
    def __init__(self):
        self.texts = []

    def note(self, text):
        self.texts.append(text)


def run(folder, tests, plan, reducer="Reducing", until="no such note", **more):
    """until: a note that ends the campaign."""
    config, registry = drive.settings(tests, plan, "liar", reducer, **more)
    notes = Notes()
    with Store.create(folder, as_json(config)) as store:
        cache = folder / "cache"
        said = lambda: any(until in text for text in notes.texts)  # noqa: E731
        return run_campaign(store, config, registry, notes, cache, said), notes.texts


def test_findings_that_reduce_to_the_same_are_one(tmp_path):
    result, notes = run(tmp_path / "c", 10, "fusing", throttle=0)
    (row,) = result.findings
    assert row.occurrences == 4 and row.nodes == (2, 2) and row.cause == cause_of("Relu", "Conv")
    assert row.test.index == 0 and row.pattern == "Relu, Conv (float32)"
    (shown,) = result.summary.signatures
    assert shown["duplicates"] == list(row.duplicates) and len(row.duplicates) == 1
    assert result.summary.merged == 1
    assert result.summary.findings == 1 and result.summary.unreduced == 0
    assert [p.name for p in (tmp_path / "c" / "findings").iterdir()] == [Path(row.folder).name]
    (duplicate,) = (tmp_path / "c" / "duplicates").iterdir()
    assert duplicate.name.endswith(row.duplicates[0])
    assert any("the same as" in text or "stands for 1 other" in text for text in notes)


def test_what_was_merged_is_merged_after_a_resume(tmp_path):
    run(tmp_path / "c", 5, "fusing", throttle=0)
    config, registry = drive.settings(10, "fusing", "liar", "Reducing", throttle=0)
    with Store.open(tmp_path / "c") as store:
        cache = tmp_path
        again = run_campaign(store, config, registry, notes := Notes(), cache)
    (row,) = again.findings
    assert row.occurrences == 4 and len(row.duplicates) == 1
    assert not [text for text in notes.texts if "reduced" in text]


def test_folders_that_a_kill_left_in_place_move_at_the_next_start(tmp_path):
    result, _ = run(tmp_path / "c", 10, "fusing", throttle=0)
    (duplicate,) = result.findings[0].duplicates
    with Store.open(tmp_path / "c") as store:
        (moved,) = (store.folder / "duplicates").iterdir()
        moved.rename(store.folder / "findings" / moved.name)
        query = "UPDATE findings SET folder = ? WHERE signature = ?"
        store.change(query, f"findings/{moved.name}", duplicate)
        recorder = Recorder(store, (), lambda *args: None, lambda row: None)
        row = recorder.rows[duplicate]
        assert row.folder == f"duplicates/{moved.name}" and moved.is_dir()
        assert all(row.graph for row in store.reductions.rows().values())
        assert not any(row.graph for row in recorder.reductions.values())  # the most of them


@pytest.mark.parametrize(
    "reducer, reason", [("Dying", "SIGSEGV"), ("Refusing", "nothing to be seen")]
)
def test_a_reduction_that_fails_costs_nothing_else(tmp_path, reducer, reason):
    result, _ = run(tmp_path / "c", 10, "fusing", reducer, throttle=0)
    assert result.summary.tests == 10 and result.summary.findings == 2
    assert result.summary.faults == result.summary.unreduced == 0
    assert all(reason in text for text in result.summary.not_reduced.values())
    assert len(result.summary.not_reduced) == 2


def test_the_end_does_not_wait_for_ever(tmp_path):
    config, registry = drive.settings(5, "fusing", "liar", "Slow")
    config = replace(config, reducer=replace(config.reducer, grace=0.5, share=0.0, seconds=0.1))
    notes = Notes()
    start = time.monotonic()
    with Store.create(tmp_path / "c", as_json(config)) as store:
        result = run_campaign(store, config, registry, notes, tmp_path)
    assert result.summary.unreduced == 2
    assert result.summary.seconds < time.monotonic() - start - 0.4  # its own time ended before
    assert any("reducing 2 findings, at most" in text for text in notes.texts)
    assert notes.texts[-1] == "2 findings not reduced; nnfuzz reduce goes on"


def test_each_finding_that_is_left_has_its_time_at_the_end(tmp_path):
    config, registry = drive.settings(5, "fusing", "liar", "Late")
    config = replace(config, reducer=replace(config.reducer, grace=0.0, share=0.0, seconds=30.0))
    notes = Notes()
    with Store.create(tmp_path / "c", as_json(config)) as store:
        result = run_campaign(store, config, registry, notes, tmp_path)
    assert any("reducing 2 findings, at most 60 s" in text for text in notes.texts)
    assert result.summary.unreduced == 0


def test_an_edge_that_keeps_failing_is_avoided(tmp_path):
    result, notes = run(tmp_path / "c", 400, "fusing", unrestrained=0.1, throttle=5)
    (avoided,) = result.summary.avoided
    (row,) = result.findings
    assert avoided.item == "Relu->Conv(float32)" and avoided.signature == row.signature
    assert avoided.share > 0.9
    assert 5 <= row.occurrences < 100  # 160 without
    assert any(text.startswith("generation keeps away from Relu->Conv") for text in notes)
    with Store.open(tmp_path / "c", write=False) as store:
        epoch = store.restraints.last()
        (entry,) = store.restraints.ever_avoided()
        later = [t for t in store.tests.rows(0, 400) if t.epoch == epoch]
        case = store.config()["case"]
        assert any(row.signature in t.failures for t in later)  # the share without restraint
        settings = {"refused": (), "avoid": (entry.item,)}
        assert store.restraints.settings_in(epoch) == settings
    assert store_config(tmp_path / "c", row)["avoid"] == []
    assert entry.item == avoided.item and case["avoid"] == []


def store_config(folder, row):
    return json.loads((folder / row.folder / "finding.json").read_text())["config"]


def test_a_single_operator_is_avoided_by_its_signature(tmp_path):
    result, _ = run(tmp_path / "c", 300, "wrong_exp", throttle=5, unrestrained=0.05)
    assert [row.item for row in result.summary.avoided] == ["Exp(float32)->float32"]
    assert result.findings[0].occurrences < 100


def test_known_failures_may_be_named_by_their_cause(tmp_path):
    result, notes = run(tmp_path / "c", 10, "fusing", known=(cause_of("Relu", "Conv"),), throttle=0)
    assert result.findings == [] and result.summary.known == 4
    assert list((tmp_path / "c" / "findings").iterdir()) == []
    assert sum(text.startswith("known, as it turns out") for text in notes) == 2


def row(signature, index, **more):
    fields = {"found_at": float(index), "occurrences": 1, **more}
    return FindingRow(
        signature,
        Numbered(1, index),
        "mismatch",
        "compare",
        "toy",
        "O1",
        "t",
        f"findings/{signature}",
        **fields,
    )


def test_a_suspect_is_asked_and_reduced_if_it_has_another_cause(tmp_path):
    result, _ = run(tmp_path / "c", 10, "fusing", "Acquitting", throttle=0)
    (row,) = result.findings
    assert len(row.duplicates) == 1 and row.suspects == ()
    assert len(list((tmp_path / "c").glob("*/*/asked"))) == 1
    with Store.open(tmp_path / "c", write=False) as store:
        assert store.reductions.suspects() == {}


def test_the_lowest_index_stands_for_all():
    rows = [row("a", 7), row("b", 3)]
    reductions = {s: ReductionRow(s, "r", f"wrong {s}", "Add", {}, 9, 1) for s in "ab"}
    (found,) = merged([*rows, row("c", 9)][:2], reductions)
    assert (found.signature, found.duplicates, found.title) == ("b", ("a",), "wrong b")
    assert found.nodes == (9, 1)
    assert len(merged([*rows, row("c", 9)], reductions)) == 2
    assert [r.signature for r in merged(rows, {})] == ["b", "a"]


def test_one_that_is_reduced_to_the_end_stands_for_those_that_it_explains():
    rows = [row("a", 3), row("b", 7)]
    known = {name: ReductionRow(name, "r", "wrong", "Add", {}, 9, 1) for name in "ab"}
    known["a"] = replace(known["a"], explained=True)
    (found,) = merged(rows, known)
    assert (found.signature, found.duplicates) == ("b", ("a",))


def test_once_it_is_over_findings_are_reduced_side_by_side(tmp_path):
    config, registry = drive.settings(5, "fusing", "liar", "Slow")
    config = replace(config, reducer=replace(config.reducer, grace=0.0, share=0.0, seconds=0.0))
    with Store.create(tmp_path / "c", as_json(config)) as store:
        run_campaign(store, config, registry, Notes(), tmp_path)
        recorder = Recorder(store, (), lambda *_: None, lambda row: None)
        recorder.complete = True
        reducer = Reducer(config, recorder, print)
        jobs = [reducer.next(math.inf) for _ in range(3)]
        assert len({job.signature for job in jobs[:2]}) == 2 and jobs[2] is None
        assert reducer.waiting() == 2 and reducer.left
        reducer.drop()
        assert [bool(reducer.next(allowed)) for allowed in (0.0, 1.0, 1.0)] == [False, True, False]


def test_a_finding_stays_where_it_is_while_it_is_reduced(tmp_path):
    settings = {"throttle": 0, "workers": 2}
    config, registry = drive.settings(5, "fusing", "liar", "Lagging", **settings)
    config = replace(config, reducer=replace(config.reducer, grace=60.0, share=0.0))

    class Telling(Notes):
        """The first that is reduced makes the other one its suspect, and then says so."""

        def note(self, text):
            super().note(text)
            if text.startswith("reduced"):
                self.suspects = self.suspects or list((tmp_path / "c" / "suspects").glob("*"))
                (tmp_path / "c" / "told").touch()

        suspects: list[Path] = []

    with Store.create(tmp_path / "c", as_json(config)) as store:
        run_campaign(store, config, registry, notes := Telling(), tmp_path)
        (row,) = store.findings()
        assert len(store.reductions.suspects()) == 1 and not notes.suspects
    assert len(row.duplicates) == 1 and not [t for t in notes.texts if t.startswith("not reduced")]
    (duplicate,) = (tmp_path / "c" / "duplicates").iterdir()
    assert duplicate.name.endswith(row.duplicates[0])


def test_the_reducer_hears_of_what_is_reduced_already(tmp_path):
    result, _ = run(tmp_path / "c", 10, "fusing", throttle=0)
    with Store.open(tmp_path / "c") as store:
        (other,) = result.findings[0].duplicates
        store.change("UPDATE findings SET reduction = NULL WHERE signature = ?", other)
        config, _ = drive.settings(10, "fusing", "liar", "Reducing", throttle=0)
        recorder = Recorder(store, (), lambda *_: None, lambda row: None)
        (waiting,) = recorder.unreduced()
        assert waiting.signature == other
        (known,) = Reducer(config, recorder, print).known(waiting)
    folder = next(row.folder for row in result.findings if row.cause)
    assert known == str((tmp_path / "c" / folder / "reduced").resolve())


def test_a_campaign_is_reduced_afterwards(tmp_path, capsys, stubbed):
    from typer import Exit

    from nnfuzz.cli.commands.findings import reduce
    from nnfuzz.cli.errors import FINDINGS, UsageError

    folder = tmp_path / "c"
    config, registry = drive.settings(10, "fusing", "liar", "Reducing")
    config = replace(config, reduce=False)
    with Store.create(folder, as_json(config)) as store:
        result = run_campaign(store, config, registry, Silent(), tmp_path)
    assert result.summary.unreduced == result.summary.findings == 2
    with pytest.raises(UsageError, match="not for a campaign"):
        reduce(folder, backend="liar")
    plugins = list(map(Path, config.plugins))
    for _ in range(2):  # the second time there is nothing left to do
        with pytest.raises(Exit) as leaving:
            reduce(folder, plugin=plugins, workers=1, budget=10)
        assert leaving.value.exit_code == FINDINGS
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["unreduced"] == 0 and summary["findings"] == 1
    assert summary["tests"] == 10 and len(summary["signatures"]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("reduced") == 2
    assert "reduced 2 -> 2 nodes: Relu, Conv (float32)" in printed.out
    assert "with 1 further signature: 1 of the same cause" in printed.out


def test_suspects_go_with_a_finding_until_they_are_reduced():
    rows = [row("a", 7), row("b", 3, occurrences=4), row("c", 9)]
    known = {"a": ReductionRow("a", "r", "wrong", "Add", {}, 9, 1)}
    suspects = {"b": "r", "c": "never reached"}
    found, other = merged(rows, known, suspects)
    assert (found.signature, found.suspects, found.occurrences) == ("a", ("b",), 5)
    assert (other.signature, other.suspects) == ("c", ())
    innocent = ReductionRow("b", "s", "wrong", "Mul", {}, 9, 1)
    assert len(merged(rows, {**known, "b": innocent}, suspects)) == 3
    assert [r.signature for r in merged(rows, {}, suspects)] == ["b", "a", "c"]


def test_models_that_contain_a_known_pattern_are_suspected(tmp_path):
    config, registry = drive.settings(10**6, "fusing", "liar", "Once", throttle=0)

    class Watching(Notes):
        def finding(self, row):
            self.texts.append("found")

    notes = Watching()
    with Store.create(tmp_path / "c", as_json(config)) as store:
        said = lambda: any("reduced" in text for text in notes.texts)  # noqa: E731
        run_campaign(store, config, registry, notes, tmp_path, said)
        config = replace(config, tests_limit=store.tests.count() + 10, reduce=False)
    with Store.open(tmp_path / "c") as store:
        result = run_campaign(store, config, registry, notes, tmp_path)
    (found,) = result.findings
    assert len(found.suspects) == 1 and found.duplicates == ()
    assert found.occurrences == result.summary.occurrences >= 4
    for place in ("findings", "suspects"):
        assert len(list((tmp_path / "c" / place).iterdir())) == 1
    assert result.summary.signatures[0]["suspects"] == list(found.suspects)
    assert result.summary.unreduced == 0  # a suspect is no finding of its own


def test_a_row_accuses_whom_its_reduced_case_accuses():
    """Until then, the compiler that the whole model failed on."""
    reduced = ReductionRow("a", "r", before=9, after=2, accused="exporter")
    (alone,), (found,) = merged([row("a", 1)], {}), merged([row("a", 1)], {"a": reduced})
    assert (alone.party, found.party) == (row("a", 1).party, "exporter")
