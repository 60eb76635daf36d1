"""Recall: entries, models as patterns, campaigns and their outcomes."""

import json
import os
import sys

import numpy as np
import onnx
import pytest
from packaging.version import Version

from nnfuzz.testcase.case import CaseConfig
from scripts.recall import campaigns, program
from scripts.recall.containment import INGREDIENTS, contains, facts
from scripts.recall.entries import Entry, entries
from scripts.recall.ingredients import counted
from scripts.recall.reach import Reach, given, reached

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
PATTERN = "g (float[3] x) => (float[3] y) <float one = {1.0}> { m = Identity(x) y = Mul(m, one) }"
WHOLE = """g (float[3] x) => (float[3] z) <float[3] all = {1.0, 1.0, 1.0}, float[1] one = {1.0}> {
    a = Relu(x) m = Identity(a) y = Mul(one, m) z = Neg(y) }"""


def read(text, **inputs):
    arrays = {name: np.array(value, np.float32) for name, value in inputs.items()}
    return facts(onnx.parser.parse_model(HEAD + text), arrays)


def without(*names):
    return [name for name in INGREDIENTS if name not in names]


def test_a_model_contains_what_stands_between_other_nodes():
    assert contains(read(WHOLE), read(PATTERN), without("ranks"))
    assert not contains(read(WHOLE), read(PATTERN))


@pytest.mark.parametrize(
    ("lacking", "old", "new"),
    [
        ("joined", "Mul(one, m)", "Mul(one, a)"),
        ("values", "one = {1.0}", "one = {2.0}"),
        ("constants", "Mul(one, m)", "Mul(x, m)"),
        ("readers", "Neg(y)", "Mul(y, m)"),
        ("dtypes", "float", "double"),
    ],
)
def test_an_ingredient_is_lacking(lacking, old, new):
    model = read(WHOLE.replace(old, new))
    assert not contains(model, read(PATTERN), without("ranks"))
    # What is read elsewhere has no reader here, and what is no constant has no constant's value.
    also = {"joined": "readers", "constants": "values"}.get(lacking, lacking)
    assert contains(model, read(PATTERN), without("ranks", lacking, also))


def test_attributes_that_a_model_leaves_out_have_onnx_s_own_values():
    pattern = read("g (float[3,2] x) => (float[3,2] y) { y = Softmax <axis = -1> (x) }")
    plain = "g (float[3,2] x) => (float[3,2] y) { y = Softmax (x) }"
    assert contains(read(plain), pattern)
    other = read(plain.replace("Softmax", "Softmax <axis = 0>"))
    assert not contains(other, pattern)
    assert contains(other, pattern, without("attributes"))


def test_an_initializer_that_is_an_input():
    pattern = read("g (float[2] x, float[2] w = {1, 1}) => (float[2] y) { y = Add(x, w) }")
    constant = "g (float[2] x) => (float[2] y) <float[2] w = {1, 1}> { y = Add(x, w) }"
    assert not contains(read(constant), pattern)
    assert contains(read(constant), pattern, without("defaults"))


def test_inputs_hold_nan():
    text = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    pattern = read(text, x=[0.0, np.nan])
    assert contains(read(text, x=[np.nan, np.inf]), pattern)
    assert not contains(read(text, x=[0.0, np.inf]), pattern)


def test_joints_alone_are_the_same_at_any_operand():
    head = "g (float[2,2] x, float[2,2] w, float[2] b) => (float[2,2] y)"
    second = read(head + " { t = Transpose(w) y = Gemm(x, t, b) }")
    first = read(head + " { t = Transpose(x) y = Gemm(t, w) }")
    assert contains(first, second, ["joined"]) and contains(second, first, ["joined"])
    assert not contains(first, second, ["joined", "attributes"])
    apart = read(head + " { t = Transpose(x) y = Gemm(x, w) }")
    assert not contains(apart, second, ["joined"])


def test_weights_that_are_stored_elsewhere_are_constants_of_any_value():
    model = onnx.parser.parse_model(HEAD + PATTERN)
    weight = model.graph.initializer[0]
    weight.CopyFrom(onnx.TensorProto(name="one", data_type=weight.data_type, dims=weight.dims))
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="elsewhere")
    one = facts(model).values["one"]
    assert one.constant and one.uniform is None and read(PATTERN).values["one"].uniform == 1.0


# Every entry of scripts/recall/bugs is well-formed, and the page shows what is recorded.


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_an_entry_has_a_valid_model_and_releases_in_order(entry: Entry) -> None:
    onnx.checker.check_model(entry.model)
    assert entry.kind in ("wrong", "error", "crash", "hang")
    assert entry.address.startswith("https://github.com/")
    assert entry.operators
    assert {v.name for v in entry.model.graph.input} == set(given(entry))
    old = entry.broken.startswith("2024") and entry.system == "iree"  # dates, then versions
    assert old or not entry.fixed or Version(entry.broken) < Version(entry.fixed)


def test_entries_are_chosen_by_the_beginning_of_their_names() -> None:
    assert {e.system for e in entries(["tvm/"])} == {"tvm"}
    assert [e.name for e in entries(["onnxslim/reshape-with-zero"])] == [
        "onnxslim/reshape-with-zero"
    ]
    assert not entries(["nobody"])


def test_a_plain_model_is_in_the_vocabulary_and_nan_is_an_edge() -> None:
    found = {e.name: reached(e).reach for e in entries(["tvm/topk-indices", "tvm/relu-nan"])}
    assert found == {"tvm/topk-indices": Reach.WHOLE, "tvm/relu-nan": Reach.EDGES}


# How many generated models have what entries need.


def test_each_step_has_at_most_as_many_models_as_the_one_before():
    group = entries(["tvm/relu-nan", "onnxruntime/div-by-zero"])
    config = CaseConfig(exporter="direct", nodes=4, operators=("Relu", "Div", "Add"))
    found = counted(group, config, 1, 20)
    assert list(found) == [entry.name for entry in group]
    for counts in found.values():
        assert len(counts.steps) == len(INGREDIENTS) + 1 and counts.steps[0] > 0
        assert counts.steps == sorted(counts.steps, reverse=True)
        assert all(count >= counts.steps[-1] for count in counts.without)
        assert len(counts.line.split("  but for ")[0].split()) == len(counts.steps)


# The program that runs entries: outcomes and differences, with systems that are made up.


ENTRY = """
system = "fake"
model = '''
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) { y = Relu(x) }
'''
[inputs]
x = [-1.0, 2.0]
"""


def right(model, inputs, entry):
    return {"y": np.maximum(inputs["x"], 0)}


def wrong(model, inputs, entry):
    return {"y": inputs["x"]}


def raising(model, inputs, entry):
    raise RuntimeError("no Relu")


def dying(model, inputs, entry):
    os.abort()


@pytest.mark.parametrize(
    ("system", "outcome"), [(right, "ok"), (wrong, "wrong"), (raising, "error"), (dying, "crash")]
)
def test_the_outcome_of_an_entry(tmp_path, monkeypatch, capfd, system, outcome) -> None:
    path = tmp_path / "relu.toml"
    path.write_text(ENTRY)
    monkeypatch.setitem(program.SYSTEMS, "fake", system)
    monkeypatch.setitem(program.PRELOADED, "fake", "json")
    program.main([path])
    (line,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    assert json.loads(line)["entry"] == "fake/relu"
    assert json.loads(line)["outcome"] == outcome


def test_a_result_of_another_dtype_or_shape_differs() -> None:
    zeros = np.zeros(2, np.float32)
    assert program.difference("y", zeros.astype(int), zeros, 0) == "y is int64 and not float32"
    assert program.difference("y", zeros[:1], zeros, 0) == "y has shape (1,) and not (2,)"
    assert not program.difference("y", zeros * np.nan, zeros * np.nan, 0)


# Whether a finding has the cause of an entry.


(RESHAPE,) = entries(["onnxslim/reshape-with-zero"])
KIND = campaigns.KINDS[RESHAPE.kind][0]


@pytest.fixture
def finding(tmp_path):
    (tmp_path / "reduced").mkdir()
    for folder in (tmp_path, tmp_path / "reduced"):
        onnx.save(RESHAPE.model, folder / "model.onnx")
    (tmp_path / "finding.json").write_text(json.dumps({"kind": KIND}))
    return tmp_path


@pytest.mark.parametrize(("code", "same"), [(0, True), (1, False)])
def test_a_finding_that_the_fixed_release_does_not_have_is_the_entrys(
    finding, monkeypatch, code, same
) -> None:
    monkeypatch.setattr(campaigns, "replayed", lambda *_: code)
    assert campaigns.same_cause(RESHAPE, finding) is same


def test_a_finding_of_another_kind_or_with_other_operators_is_not(finding, monkeypatch) -> None:
    monkeypatch.setattr(campaigns, "replayed", lambda *_: 0)
    (finding / "finding.json").write_text(json.dumps({"kind": "crash"}))
    assert not campaigns.same_cause(RESHAPE, finding)
    (finding / "finding.json").write_text(json.dumps({"kind": KIND}))
    (other,) = entries(["tvm/topk-indices"])
    onnx.save(other.model, finding / "reduced" / "model.onnx")
    assert not campaigns.same_cause(RESHAPE, finding)


def test_a_campaign_is_aimed_at_the_operators_of_its_entry() -> None:
    assert campaigns.campaign_of(RESHAPE, True, 6, 1).operators == ("Reshape",)
    assert campaigns.campaign_of(RESHAPE, False, 6, 1).operators == ()
    (kept,) = entries(["tvm/split-kept-parameter"])
    assert campaigns.campaign_of(kept, True, 6, 1).options == ",weights=inputs"
    assert campaigns.campaign_of(kept, False, 6, 1).options == ""


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
        assert campaigns.same_cause(RESHAPE, finding) is same


def test_a_finding_with_the_entrys_nodes_is_reduced_whatever_else_is_wrong(finding, monkeypatch):
    reduced = finding / "reduced" / "model.onnx"
    asked = []

    def command(arguments, *_):
        asked.append(arguments[0])
        reduced.parent.mkdir(exist_ok=True)
        onnx.save(RESHAPE.model, reduced)
        return 0

    reduced.unlink()
    reduced.parent.rmdir()
    monkeypatch.setattr(campaigns, "nnfuzz_command", command)
    monkeypatch.setattr(campaigns, "replayed", lambda *_: 0 if reduced.exists() else 1)
    assert campaigns.same_cause(RESHAPE, finding) and asked == ["reduce"]


def test_a_plain_node_behind_the_others_may_be_lacking() -> None:
    (entry,) = entries(["onnxruntime/identity-before-folded-one"])
    (core,) = campaigns._cores(campaigns.facts(entry.model))
    assert [node.operator for node in core.nodes] == ["Identity", "Div", "Mul"]
    (other,) = entries(["onnxruntime/cast-before-folded-one"])  # without Mul nothing joins the rest
    assert not [*campaigns._cores(campaigns.facts(other.model))]


def test_a_command_ends_once_it_has_had_its_cpu_time() -> None:
    burn = "import time\nwhile time.process_time() < {}: pass"
    ticks = campaigns.spent([sys.executable, "-c", burn.format(30)], os.environ, 0.01)
    assert 0.6 <= ticks[-1][1] < 20


def test_a_curve_counts_each_entry_when_it_was_met_first() -> None:
    found = [("a", "f", 0.5), ("a", "f", 0.25), ("b", "", 6.0), ("c", "f", 2.0)]
    results = [campaigns.Met(entry, "", 1, finding, at) for entry, finding, at in found]
    assert campaigns.curve(results) == "2 of 3 met; CPU minutes: 1 by 0.25, 2 by 2"
