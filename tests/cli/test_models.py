"""The commands on models of any origin: show, rewrite, metrics; and the page of a campaign."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, checker, helper, numpy_helper, parser

from nnfuzz.backend.outcome import Brief
from nnfuzz.base.writing import as_json
from nnfuzz.ir.features import features
from nnfuzz.records.rows import FindingRow, Occurrence, TestRow
from nnfuzz.store.database import dumps
from nnfuzz.store.store import Store
from nnfuzz.testcase.identity import Numbered
from tests.command import exit_code as command
from tests.command import nnfuzz, told
from tests.findings.graphs import branching

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
small (float[2, 3] x) => (float[2, 3] y) { r = Relu (x) y = Add (r, x) }
"""


def run(*words: object):
    return nnfuzz("rewrite", *words)


def test_models_are_drawn_and_made_again(tmp_path):
    file = tmp_path / "small.onnx"
    onnx.save(parser.parse_model(MODEL), file)
    first = run(file, "--out", tmp_path / "a", "--count", 3)
    again = run(file, "--out", tmp_path / "b", "--count", 3)
    assert first.returncode == again.returncode == 0, first.stdout
    made = sorted((tmp_path / "a").iterdir())
    assert len(made) == 3
    for one in made:
        onnx.checker.check_model(one, full_check=True)
        assert one.read_bytes() == (tmp_path / "b" / one.name).read_bytes() != file.read_bytes()


def test_mistakes_are_told(tmp_path):
    file = tmp_path / "none.onnx"
    assert run().returncode != 0
    file.write_bytes(b"no model")
    for words in ([file, "--out", tmp_path], [tmp_path / "gone.onnx", "--out", tmp_path]):
        found = run(*words)
        assert found.returncode != 0 and "Traceback" not in found.stderr


def test_show_prints_and_draws(tmp_path, capsys):
    (tmp_path / "finding.json").write_text(json.dumps({"graph": branching().to_json()}))
    (tmp_path / "bare.json").write_text(json.dumps(branching().to_json()))
    assert command("show", tmp_path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "input  x: f32[1, 4, 8]" and printed[-1] == "output b: f32[1, 2, 8]"
    assert "a: f32[1, 2, 8], b: f32[1, 2, 8] = Split(x, axis=1)" in printed
    assert command("show", tmp_path / "bare.json", "--svg", tmp_path / "g.svg") == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "g.svg")
    ElementTree.parse(tmp_path / "g.svg")


def onnx_file(tmp_path):
    """An If that reads outer values, an operator of a vendor, a symbolic dimension."""
    float_ = TensorProto.FLOAT
    then = helper.make_graph(
        [helper.make_node("Add", ["x", "c"], ["b"])],
        "then",
        [],
        [helper.make_tensor_value_info("b", float_, None)],
    )
    nodes = [
        helper.make_node("Conv", ["x", "w", ""], ["c"], auto_pad="SAME_UPPER"),
        helper.make_node("Fused", ["c"], ["f"], domain="com.acme", alpha=0.5, names=["a", "b"]),
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.array([True]))),
        helper.make_node("If", ["k"], ["y"], then_branch=then, else_branch=then),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", float_, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", float_, None)],
        [numpy_helper.from_array(np.ones((3, 3, 3, 3), np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.acme", 1)]
    file = tmp_path / "model.onnx"
    file.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return file


def test_show_of_any_onnx_model(tmp_path, capsys):
    file = onnx_file(tmp_path)
    wanted = [
        "input  x: f32[N, 3, 8, 8]",
        "weight w: f32[3, 3, 3, 3]",
        "c: f32[N, 3, 8, 8] = Conv(x, w, auto_pad=SAME_UPPER)",
        "f: ?[?] = com.acme.Fused(c, alpha=0.5, names=[a, b])",
        "k: bool[1] = Constant(value=bool[1] [True])",
        "y: f32[N, 3, 8, 8] = If(k, x, c, else_branch={1 node}, then_branch={1 node})",
        "output y: f32[N, 3, 8, 8]",
    ]
    assert command("show", file) == 0
    assert capsys.readouterr().out.splitlines() == wanted
    assert command("show", tmp_path) == 0  # the folder of it
    assert capsys.readouterr().out.splitlines() == wanted
    assert command("show", file, "--svg", tmp_path / "g.svg") == 0
    drawing = "".join(ElementTree.parse(tmp_path / "g.svg").getroot().itertext())
    assert "com.acme.Fused" in drawing and "f32[N, 3, 8, 8]" in drawing


@pytest.mark.parametrize("fields", [{"type": 0}, {"ref_attr_name": "outer"}])
def test_attributes_without_a_value_are_shown_as_such(tmp_path, capsys, fields):
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.add(name="odd", **fields)
    values = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    file = tmp_path / "odd.onnx"
    whole = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]))
    file.write_bytes(whole.SerializeToString())
    assert command("show", file) == 0
    assert "Relu(x, odd=?)" in capsys.readouterr().out


@pytest.mark.parametrize("size", [0, 40, 100])
def test_a_truncated_model_is_told_in_one_line(tmp_path, capsys, size):
    file = onnx_file(tmp_path)
    file.write_bytes(file.read_bytes()[:size])
    assert command("show", file) == 2
    told = capsys.readouterr().err
    assert "model.onnx holds no graph: it is no ONNX model" in told and told.count("\n") == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"graph": null}', '{"nodes": [{}], "values": []}'])
def test_what_is_no_graph_is_refused(tmp_path, capsys, text):
    (tmp_path / "x.json").write_text(text)
    assert command("show", tmp_path / "x.json") == 2
    assert "graph" in capsys.readouterr().err


def test_report_of_a_store(tmp_path, capsys):
    folder = tmp_path / "camp"
    finding = FindingRow(
        "5i6", Numbered(1, 1), "crash", "compile", "toy", "O1", "boom", "findings/gone"
    )
    with Store.create(folder, {"seed": 9}) as store:
        store.sessions.begin()
        store.set_meta("versions", {"toy": "1.2.3"})
        store.restraints.set_epoch(0, {"Add(bool)"}, {"Add(bool)": "toy: no"})
        for index in range(3):
            levels = {"O0": Brief("ok"), "O1": Brief("crash" if index == 1 else "ok")}
            parts = dumps(as_json(features(branching()))) if index else ""
            test = TestRow(index, "run", 1, {"toy": levels}, {"execute": 0.25}, features=parts)
            found = (finding,) if index == 1 else ()
            seen = (Occurrence("5i6", Numbered(1, 1)),) if index == 1 else ()
            store.record(test, found, seen)
        store.flush()
        assert command("report", folder) == 0  # while it is running
    assert capsys.readouterr().out.strip() == str(folder / "report.html")
    page = (folder / "report.html").read_text()
    for text in ("boom", "toy&nbsp;1.2.3", "Add(bool)", "crash</th>"):
        assert text in page, text
    out = tmp_path / "elsewhere.html"
    assert command("report", folder, "--out", out) == 0 and out.is_file()


def test_a_folder_without_a_campaign(tmp_path, capsys):
    assert command("report", tmp_path) == 2
    assert "no campaign" in capsys.readouterr().err


def metrics(*arguments):
    return told("metrics", *arguments)


def model(size=4):
    """A model of nobody in particular: a Conv-free chain with a Constant and a foreign operator."""
    one = numpy_helper.from_array(np.ones(1, np.float32))
    nodes = [
        helper.make_node("Constant", [], ["one"], value=one),
        helper.make_node("Add", ["x", "one"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Strange", ["r"], ["y"], domain="com.example"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [size, "n"]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("com.example", 1)]
    made = helper.make_model(graph, opset_imports=domains, ir_version=9)
    checker.check_model(made)
    return made.SerializeToString()


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "models" / "deep"
    place.mkdir(parents=True)
    for number in (3, 4):
        (place / f"{number}.onnx").write_bytes(model(number))
    return tmp_path / "models"


def test_models_of_others_are_counted(folder, tmp_path):
    code, shown = metrics(folder, "--json", tmp_path / "m.json")
    assert code == 0 and "OTC" in shown and "models" in shown
    (only,) = json.loads((tmp_path / "m.json").read_text())["folders"]
    assert only["operators"] == {"Add": 2, "Relu": 2, "com.example.Strange": 2}
    assert only["measures"]["NTR"] == 1


def test_what_cannot_be_read_is_named_and_left_out(folder, tmp_path):
    (folder / "torn.onnx").write_bytes(model()[:40])
    code, shown = metrics(folder, folder, "--json", tmp_path / "m.json", "--operators", "Add,Relu")
    assert code == 0 and "torn.onnx" in shown
    whole = json.loads((tmp_path / "m.json").read_text())
    assert whole["vocabulary"] == 2 and len(whole["folders"]) == 2
    assert list(whole["folders"][1]["left_out"]) == [str(folder / "torn.onnx")]


def test_folders_without_models(tmp_path):
    code, shown = metrics(tmp_path)
    assert code == 2 and "*.onnx" in shown
    assert metrics(tmp_path / "absent")[0] == 2
