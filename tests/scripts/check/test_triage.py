"""The score of triage: duplicates, unclear findings, buckets, what is missed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nnfuzz.base.files import npz_bytes
from scripts.check.triage import Row, judged, read_rows, score, table

CAUSES = {b"1": {"sin"}, b"2": {"sin"}, b"3": {"sin", "cos"}, b"4": set(), b"5": {"cos"}}


def truth(model, inputs):
    assert inputs.keys() == {"x"}
    return CAUSES[model]


@pytest.fixture
def campaign(tmp_path):
    """Five findings; the first is reduced and has swallowed the last."""

    def finding(name, model):
        folder = tmp_path / "findings" / name
        folder.mkdir(parents=True)
        (folder / "finding.json").write_text("{}")
        (folder / "model.onnx").write_bytes(model)
        (folder / "inputs.npz").write_bytes(npz_bytes({"x": np.zeros(1)}))

    listed = [
        {"signature": h, "title": f"finding {h}", "folder": f"findings/b-mismatch-{h}"}
        for h in "abcd"
    ]
    listed[0]["suspects"] = ["e", "gone"]
    for name, model in zip("abcde", (b"3", b"2", b"3", b"4", b"5")):
        finding(f"b-mismatch-{name}", model)
    finding("b-mismatch-a/reduced", b"1")
    (tmp_path / "summary.json").write_text(json.dumps({"signatures": listed}))
    return tmp_path


def test_findings_are_scored_by_their_true_causes(campaign):
    rows = read_rows(campaign)
    assert [row.reduced for row in rows] == [True, False, False, False]
    found = score(rows, truth)
    assert found.first == {"sin": "a"}
    assert found.duplicates == {"b": "a"}
    assert found.unclear == ["c"]
    assert found.unplanted == ["d"]
    assert found.buckets == {"a": ["b-mismatch-e"]}
    text = table(found, ["sin", "cos"])
    assert "| 4 | 1 | 1 of 2 | 1 | 1 | 1 | 1 |" in text
    assert "missed: cos" in text


def test_a_person_may_judge(campaign, tmp_path):
    file = tmp_path / "causes.txt"
    file.write_text("a precision\nb precision\nc lstm gru\nd ?\n")
    found = judged(read_rows(campaign), file)
    assert found.duplicates == {"b": "a"}
    assert found.buckets == {"c": ["gru", "lstm"]}
    assert found.unplanted == ["d"]


def test_a_row_shows_its_smallest_model(tmp_path):
    row = Row({"signature": "a"}, tmp_path)
    assert row.smallest == tmp_path and not row.reduced
    (tmp_path / "reduced").mkdir()
    assert row.smallest == tmp_path / "reduced" and row.reduced
