"""Campaigns whose findings an older nnfuzz has merged by other rules."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.localise import Localisation
from nnfuzz.findings.folder import write_finding
from nnfuzz.ir.view import GraphView
from nnfuzz.records.finding import Finding
from nnfuzz.records.rows import FindingRow, Record, ReductionRow
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.refine import pattern_of
from nnfuzz.triage.signature import Failure, Signature
from nnfuzz.upkeep.remerge import remerge, renew_variants

CASES = Path(__file__).parents[1] / "triage" / "testdata" / "reduced"


def add(store, index, told, **more):
    """A reduced finding of a golden case, with a refined signature of its own."""
    signature = read(Signature, {**told["signature"], "hash": f"{index}" * 12})
    kind, stage = OutcomeKind(told["kind"]), Stage(told["stage"])
    targets = tuple(Target(told["backend"], pipeline=level) for level in told["levels"])
    failure = Failure(signature, kind, stage, targets)
    graph = GraphView.from_json(told["graph"])
    case = TestCase(Numbered(0, index), graph, b"", {}, {}, {}, "direct", 20)
    where = Localisation({}, "", "optimiser", (), tuple(told["facts"]["passes"]))
    found = Finding(failure, case, (), None, {}, localisation=as_json(where))
    folder = f"findings/{index}"
    write_finding(store.folder / folder / "reduced", found)
    row = FindingRow(
        signature.hash, case.id, kind.value, stage.value, told["backend"], "O3", "", folder
    )
    store.record(Record(findings=(row,)))
    pattern = str(pattern_of(graph))
    reduction = ReductionRow(signature.hash, f"old{index}", "", pattern, graph, 9, 2)
    store.reductions.add(replace(reduction, **more))


def test_what_is_one_by_now_is_merged(tmp_path):
    notes: list[str] = []
    with Store.create(tmp_path / "c", {}) as store:
        for i, told in enumerate(json.loads((CASES / "ort_pad_fusion.json").read_text())):
            add(store, i, told)
        before = store.findings()
        store.reductions.suspect("x" * 12, "old2")
        assert remerge(store, BackendRegistry(), notes.append) == len(before) > 2
        (whole,) = store.findings()
        assert whole.test.index == 0 and len(whole.grouping.duplicates) == len(before) - 1
        assert store.reductions.suspects() == {"x" * 12: whole.refined}
        assert f"{len(before)} findings are 1" in notes[0]
        renew_variants(store)
        assert "## Variants" in (tmp_path / "c/findings/0/reduced/report.md").read_text()
        assert remerge(store, BackendRegistry(), notes.append) == 0


def test_what_cannot_be_read_stays(tmp_path):
    with Store.create(tmp_path / "c", {}) as store:
        (told, *_) = json.loads((CASES / "ort_mod_int64.json").read_text())
        add(store, 0, told)
        (tmp_path / "c/findings/0/reduced/finding.json").write_text("{}")
        assert remerge(store, BackendRegistry(), print) == 0
        assert store.findings()[0].refined == "old0"


def test_what_another_finding_explains_goes_with_it(tmp_path):
    with Store.create(tmp_path / "c", {}) as store:
        (told, *_) = json.loads((CASES / "ort_relu_clip_fusion.json").read_text())
        other = {**told, "facts": {**told["facts"], "passes": []}}
        add(store, 1, other, refined="old2", explained=True)
        add(store, 2, told)
        assert (
            store.reductions.rows()["1" * 12].explained
            and not store.reductions.rows()["2" * 12].explained
        )
        assert store.findings()[0].test.index == 2  # the one that is reduced to the end
        remerge(store, BackendRegistry(), lambda text: None)
        (whole,) = store.findings()
        assert whole.refined != "old2" and whole.grouping.duplicates == ("1" * 12,)
