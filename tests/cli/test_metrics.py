"""`nnfuzz metrics`: any folder of models, side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import TensorProto, checker, helper, numpy_helper

from nnfuzz.base.writing import as_json
from nnfuzz.ir.features import Features, NodeFeatures
from nnfuzz.records.rows import TestRow
from nnfuzz.store.database import dumps
from nnfuzz.store.store import Store
from tests.command import told


def nnfuzz(*arguments):
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
    code, shown = nnfuzz(folder, "--json", tmp_path / "m.json")
    assert code == 0 and "OTC" in shown and "models" in shown
    (only,) = json.loads((tmp_path / "m.json").read_text())["folders"]
    assert only["operators"] == {"Add": 2, "Relu": 2, "com.example.Strange": 2}
    assert only["measures"]["NTR"] == 1


def test_what_cannot_be_read_is_named_and_left_out(folder, tmp_path):
    (folder / "torn.onnx").write_bytes(model()[:40])
    code, shown = nnfuzz(folder, folder, "--json", tmp_path / "m.json", "--operators", "Add,Relu")
    assert code == 0 and "torn.onnx" in shown
    whole = json.loads((tmp_path / "m.json").read_text())
    assert whole["vocabulary"] == 2 and len(whole["folders"]) == 2
    assert list(whole["folders"][1]["left_out"]) == [str(folder / "torn.onnx")]


def test_passes_that_changed_no_model_are_named(tmp_path):
    with Store.create(tmp_path / "c", {}) as store:
        node = NodeFeatures("Cast", "int8", "0badcafe", "2x3", ("to=more",))
        store.record(TestRow(1, "run", 0, features=dumps(as_json(Features((node,), ())))))
    code, shown = nnfuzz(tmp_path / "c", "--backend", "onnxruntime")
    assert code == 0 and "0 of " in shown and "--focus" in shown and "ConstantFolding" in shown


def test_folders_without_models(tmp_path):
    code, shown = nnfuzz(tmp_path)
    assert code == 2 and "*.onnx" in shown
    assert nnfuzz(tmp_path / "absent")[0] == 2
