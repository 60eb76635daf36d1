"""Whether a finding has the cause of an entry."""

from __future__ import annotations

import json

import onnx
import pytest

from scripts.recall import campaigns
from scripts.recall.entries import entries

(ENTRY,) = entries(["onnxslim/reshape-with-zero"])
KIND = campaigns.KINDS[ENTRY.kind][0]


@pytest.fixture
def finding(tmp_path):
    (tmp_path / "reduced").mkdir()
    for folder in (tmp_path, tmp_path / "reduced"):
        onnx.save(ENTRY.model, folder / "model.onnx")
    (tmp_path / "finding.json").write_text(json.dumps({"kind": KIND}))
    return tmp_path


@pytest.mark.parametrize(("code", "same"), [(0, True), (1, False)])
def test_a_finding_that_the_fixed_release_does_not_have_is_the_entrys(
    finding, monkeypatch, code, same
) -> None:
    monkeypatch.setattr(campaigns, "replayed", lambda *_: code)
    assert campaigns.same_cause(ENTRY, finding) is same


def test_a_finding_of_another_kind_or_with_other_operators_is_not(finding, monkeypatch) -> None:
    monkeypatch.setattr(campaigns, "replayed", lambda *_: 0)
    (finding / "finding.json").write_text(json.dumps({"kind": "crash"}))
    assert not campaigns.same_cause(ENTRY, finding)
    (finding / "finding.json").write_text(json.dumps({"kind": KIND}))
    (other,) = entries(["tvm/topk-indices"])
    onnx.save(other.model, finding / "reduced" / "model.onnx")
    assert not campaigns.same_cause(ENTRY, finding)


def test_a_damaged_finding_has_no_cause(tmp_path) -> None:
    (tmp_path / "finding.json").write_text("{")
    assert not campaigns.same_cause(ENTRY, tmp_path)


def test_a_campaign_is_aimed_at_the_operators_of_its_entry() -> None:
    assert campaigns.campaign_of(ENTRY, True, 300, 1).operators == ("Reshape",)
    assert campaigns.campaign_of(ENTRY, False, 300, 1).operators == ()
    (kept,) = entries(["tvm/split-kept-parameter"])
    assert campaigns.campaign_of(kept, True, 300, 1).options == ",weights=inputs"
    assert campaigns.campaign_of(kept, False, 300, 1).options == ""


def test_where_no_release_is_without_the_bug_the_nodes_must_be_joined_as_in_the_entry(tmp_path):
    (entry,) = entries(["onnxruntime/cast-before-folded-one"])
    assert not entry.fixed
    (tmp_path / "reduced").mkdir()
    (tmp_path / "finding.json").write_text(json.dumps({"kind": campaigns.KINDS[entry.kind][0]}))
    alone = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> '
        "g (int64[3] x, int64[3] z) => (int64[3] y) { y = Div (x, z) }"
    )
    for model, same in ((alone, False), (entry.model, True)):
        for folder in (tmp_path, tmp_path / "reduced"):
            onnx.save(model, folder / "model.onnx")
        assert campaigns.same_cause(entry, tmp_path) is same


def test_a_reduced_model_holds_the_entrys_nodes_or_is_a_part_of_them(finding, monkeypatch) -> None:
    monkeypatch.setattr(campaigns, "replayed", lambda *_: 0)
    head = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,6] x, float[4] z) => (float[4,3] y) '
    )
    shapes = "<int64[2] s = {4,3}, int64[2] t = {3,4}>"
    part = head + shapes + " { y = Reshape(x, s) }"
    apart = head + shapes + " { a = Relu(x) b = Relu(a) y = Reshape(b, s) c = Reshape(z, t) }"
    for text, same in ((part, True), (apart, False)):
        onnx.save(onnx.parser.parse_model(text), finding / "reduced" / "model.onnx")
        assert campaigns.same_cause(ENTRY, finding) is same


def test_a_finding_with_the_entrys_nodes_is_reduced_whatever_else_is_wrong(finding, monkeypatch):
    reduced = finding / "reduced" / "model.onnx"
    asked = []

    def command(arguments, *_):
        asked.append(arguments[0])
        reduced.parent.mkdir(exist_ok=True)
        onnx.save(ENTRY.model, reduced)
        return 0

    reduced.unlink()
    reduced.parent.rmdir()
    monkeypatch.setattr(campaigns, "nnfuzz_command", command)
    monkeypatch.setattr(campaigns, "replayed", lambda *_: 0 if reduced.exists() else 1)
    assert campaigns.same_cause(ENTRY, finding) and asked == ["reduce"]


def test_a_plain_node_behind_the_others_may_be_lacking() -> None:
    (entry,) = entries(["onnxruntime/identity-before-folded-one"])
    (core,) = campaigns._cores(campaigns.facts(entry.model))
    assert [node.operator for node in core.nodes] == ["Identity", "Div", "Mul"]
    (other,) = entries(["onnxruntime/cast-before-folded-one"])  # without Mul nothing joins the rest
    assert not [*campaigns._cores(campaigns.facts(other.model))]
