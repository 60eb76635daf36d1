"""nnfuzz show."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.command import exit_code as command
from tests.findings.graphs import branching


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


def model(tmp_path):
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
    file = model(tmp_path)
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
    file = model(tmp_path)
    file.write_bytes(file.read_bytes()[:size])
    assert command("show", file) == 2
    told = capsys.readouterr().err
    assert "model.onnx holds no graph: it is no ONNX model" in told and told.count("\n") == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"graph": null}', '{"nodes": [{}], "values": []}'])
def test_what_is_no_graph_is_refused(tmp_path, capsys, text):
    (tmp_path / "x.json").write_text(text)
    assert command("show", tmp_path / "x.json") == 2
    assert "graph" in capsys.readouterr().err
