"""`nnfuzz check` at the command line: exit codes, inputs, what is written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import nnfuzz as library
from nnfuzz.library.model_check import ModelCheck
from tests.command import nnfuzz

pytest.importorskip("onnxruntime")
OFF = Path(__file__).parents[1] / "library" / "off.py"
HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]> m '
BODY = "(float[n, 3] x, float[3] b) => (float[n, 3] y) { a = Add(x, b)  y = Tanh(a) }"
GIVEN = {"x": np.ones((2, 3), np.float32), "b": np.zeros(3, np.float32)}


@pytest.fixture
def model(tmp_path):
    onnx.save(parser.parse_model(HEAD + BODY), tmp_path / "mine.onnx")
    return tmp_path / "mine.onnx"


def check(model, *options):
    return nnfuzz("check", model, "-b", "onnxruntime", "--level", "O0", *options)


def test_a_right_model(model, tmp_path):
    done = check(model, "--nodes", "--json", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("right: all outputs on all 1 targets\ninputs: x float32[2, 3]")
    assert "y float32[2, 3]: all of it compared" in done.stdout and "Tanh -> y" in done.stdout
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["ok"] and [output["share"] for output in data["outputs"]] == [1.0]


def test_a_wrong_one_is_saved_as_a_finding_that_replays(model, tmp_path):
    own = ("-b", "off", "--plugin", OFF)
    done = nnfuzz("check", model, *own, "--save", tmp_path / "out")
    assert done.returncode == 1 and "WRONG: 2 of 3 targets fail" in done.stdout
    assert "first wrong: a, which Add computes" in done.stdout
    (folder,) = (tmp_path / "out").iterdir()
    assert f"next: nnfuzz reduce {folder}" in done.stdout
    assert nnfuzz("replay", folder, "--plugin", OFF).returncode == 1


@pytest.mark.slow
def test_inputs_of_an_archive_or_a_folder(model, tmp_path):
    np.savez(tmp_path / "named.npz", **GIVEN)
    np.savez(tmp_path / "listed.npz", *GIVEN.values())
    case = library.case_from_onnx(model, GIVEN)
    folder = library.save_case(case, tmp_path) / "test_data_set_0"
    for path in (tmp_path / "named.npz", tmp_path / "listed.npz", folder):
        done = check(model, "--inputs", path)
        assert done.returncode == 0 and "inputs: x float32[2, 3], b float32[3]" in done.stdout
    np.savez(tmp_path / "other.npz", x=np.ones((2, 4), np.float32), b=GIVEN["b"])
    assert check(model, "--inputs", tmp_path / "other.npz").returncode == 2


@pytest.mark.parametrize(
    "options, told",
    [
        (["--inputs", "absent.npz"], "no such file"),
        (["--level", "O9"], "no level 'O9'"),
        (["-b", "nobody"], "no backend 'nobody'"),
    ],
)
def test_wrong_usage(model, options, told):
    done = check(model, *options)
    assert done.returncode == 2 and told in done.stderr


def test_no_model_and_no_inputs(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"\xff")
    assert check(tmp_path / "bad.onnx").returncode == 2
    assert check(tmp_path / "absent.onnx").returncode == 2
    text = "(float[2] x) => (float[2] y) { a = Relu(x)  n = Neg(a)  y = Acosh(n) }"
    onnx.save(parser.parse_model(HEAD + text), tmp_path / "none.onnx")
    done = check(tmp_path / "none.onnx")
    assert done.returncode == 0 and done.stdout.startswith("right: ")  # all NaN, as must be
    assert "it overflows or is undefined in all of" in done.stdout


def test_not_compared(tmp_path):
    text = "(float[2] x) => (float[2] y, float[2] z) { y = com.acme.F(x)  z = Relu(x) }"
    onnx.save(parser.parse_model(HEAD + text), tmp_path / "acme.onnx")
    done = check(tmp_path / "acme.onnx")
    assert done.returncode == 4 and done.stdout.startswith("not compared: ")
    text = "(seq(float[2]) s) => (int64 n) { n = SequenceLength(s) }"
    onnx.save(parser.parse_model(HEAD + text), tmp_path / "sequence.onnx")
    done = check(tmp_path / "sequence.onnx")
    assert done.returncode == 4 and "'s' is a sequence: nnfuzz feeds" in done.stdout


def test_nodes_out_of_order_run_sorted(model):
    unsorted = onnx.load(model)
    unsorted.graph.node.reverse()
    onnx.save(unsorted, model)
    done = check(model)
    assert done.returncode == 0 and "note: nodes are not in topological order" in done.stdout


def test_data_sets_and_archives_of_texts(tmp_path):
    text = "(string[N] a, string[N] b) => (string[N] c) { c = StringConcat(a, b) }"
    onnx.save(parser.parse_model(HEAD.replace("17", "20") + text), tmp_path / "model.onnx")
    arrays = {"input_0": ["a", "longer"], "input_1": ["ß", ""], "output_0": ["aß", "wrong"]}
    (tmp_path / "test_data_set_0").mkdir()
    for name, own in arrays.items():
        tensor = numpy_helper.from_array(np.array(own, object), name)
        file = tmp_path / "test_data_set_0" / f"{name}.pb"
        file.write_bytes(tensor.SerializeToString())
    done = check(tmp_path)
    assert "inputs: a string[2], b string[2]" in done.stdout, done.stdout
    assert "onnxruntime O0, onnx.reference | the given outputs" in done.stdout
    np.savez(tmp_path / "named.npz", a=np.array(["x"]), b=np.array(["y"]))
    done = check(tmp_path / "model.onnx", "--inputs", tmp_path / "named.npz")
    assert "inputs: a string[1], b string[1]" in done.stdout, done.stdout


def test_the_report_is_printed_even_if_it_cannot_be_saved(model, tmp_path, monkeypatch):
    def full(self, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ModelCheck, "save", full)
    done = check(model, "--save", tmp_path / "out")
    assert done.returncode == 2 and "cannot be written: No space left" in done.stderr
    assert done.stdout.startswith("right: all outputs on all 1 targets")


def test_several_models_and_one_that_is_none(model, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    done = nnfuzz("check", tmp_path / "bad.onnx", model, "-b", "onnxruntime", "--level", "O0")
    assert done.returncode == 2 and "not checked: " in done.stdout
    assert f"{model}: right: all outputs on all 1 targets" in done.stdout


def test_a_model_is_cut_at_a_node(model, tmp_path):
    assert check(model, "--cut", "y", "--save", tmp_path / "parts").returncode == 0
    for kind, operators in ("up-to", ["Add", "Tanh"]), ("only", ["Tanh"]):
        file = tmp_path / "parts" / f"mine-{kind}-y.onnx"
        part = onnx.load(file)
        onnx.checker.check_model(part)
        assert [node.op_type for node in part.graph.node] == operators
        assert set(np.load(file.with_suffix(".npz"))) == {v.name for v in part.graph.input}
    assert check(model, "--cut", "z").returncode == 2
