"""Test cases of a user's models, and random ones."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import parser

import nnfuzz
from nnfuzz.base.writing import as_json
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.identity import Numbered


def test_the_compilers_get_the_model_as_it_is(model, tmp_path):
    case = nnfuzz.case_from_onnx(model)
    assert case.model == model.SerializeToString()
    assert list(case.inputs) == ["data", "unused"] and list(case.expected) == ["probabilities"]
    assert np.array_equal(case.weights["bias"], np.float32([0.5, 0, 1]))
    onnx.save(model, tmp_path / "mine.onnx")
    for same in (case.model, tmp_path / "mine.onnx", str(tmp_path / "mine.onnx")):
        assert nnfuzz.case_from_onnx(same).digest() == case.digest()


def test_inputs_can_be_given_and_fix_open_dimensions(model):
    data = np.eye(4, dtype=np.float32)[:3]
    given = {"data": data, "unused": np.zeros(2, np.int64)}
    case = nnfuzz.case_from_onnx(model, given)
    logits = data @ case.weights["kernel"] + case.weights["bias"]
    wanted = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(case.expected["probabilities"], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"data": np.zeros((3, 4), np.float32)}, "'unused' is missing"),
        ({"data": np.zeros((3, 5), np.float32), "unused": np.zeros(2, np.int64)}, "'data' is"),
    ],
)
def test_inputs_that_do_not_fit_are_told(model, given, told):
    with pytest.raises(nnfuzz.ModelError, match=told):
        nnfuzz.case_from_onnx(model, given)


def refused(text: str) -> str:
    with pytest.raises(nnfuzz.ModelError) as caught:
        nnfuzz.case_from_onnx(parser.parse_model(text))
    return str(caught.value)


def test_what_cannot_be_imported_is_told(tmp_path):
    head = '<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]> m (float[2] x) => (float[2] y)'
    assert "Secret" in refused(head + "{ y = com.acme.Secret(x) }")
    assert "Secret" in refused(head + "{ a = com.acme.Secret(x)  y = Add(a, x) }")
    assert "random" in refused(head + "{ a = RandomNormal<shape = [2]>()  y = Add(a, x) }")
    with pytest.raises(nnfuzz.ModelError, match="the bytes is damaged"):
        nnfuzz.case_from_onnx(b"\xff" * 9)
    with pytest.raises(OSError):
        nnfuzz.case_from_onnx(tmp_path / "absent.onnx")


def test_an_operator_without_a_spec_is_run_and_what_depends_on_it_not_compared():
    text = '<ir_version: 8, opset_import: ["" : 17]> m (float[2, 2] x) => (float y, float[2, 2] z)'
    case = nnfuzz.case_from_onnx(parser.parse_model(text + "{ y = Det(x)  z = Relu(x) }"))
    envelope = nnfuzz.Oracle().envelope(case)
    assert not envelope["z"].any.any() and envelope.keys() == {"y", "z"}


def test_saved_and_loaded_they_are_the_same(model, cases, tmp_path):
    for case in (cases[0], nnfuzz.case_from_onnx(model)):
        assert nnfuzz.load_case(nnfuzz.save_case(case, tmp_path)).digest() == case.digest()


def test_a_test_of_others_is_imported(model, tmp_path):
    path = nnfuzz.save_case(nnfuzz.case_from_onnx(model), tmp_path)
    (path / "nnfuzz.json").unlink()
    assert list(nnfuzz.load_case(path).weights) == ["kernel", "bias"]


def test_a_notebook_shows_the_graph(model):
    case = nnfuzz.case_from_onnx(model)
    assert "3 operators, inputs data, unused, outputs probabilities" in repr(case)


@pytest.mark.parametrize("inputs", [[np.zeros(2)], np.zeros(2), {"data": [1.0]}])
def test_inputs_that_are_no_arrays_by_name_are_refused(model, inputs):
    with pytest.raises(TypeError, match=r"^inputs.* array"):
        nnfuzz.case_from_onnx(model, inputs)


def test_tensors_beside_a_model_need_its_path(model, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    with pytest.raises(nnfuzz.ModelError, match="in another file: give the path of the model"):
        nnfuzz.case_from_onnx(path.read_bytes())
    assert nnfuzz.case_from_onnx(path).graph
    (tmp_path / "m.data").unlink()
    with pytest.raises(nnfuzz.ModelError, match=r"m\.data|No such file"):
        nnfuzz.case_from_onnx(path)


def test_a_case_is_a_function_of_its_index(cases):
    first = [case.digest() for case in itertools.islice(cases, 3)]
    assert first == [cases[index].digest() for index in range(3)]
    assert len(set(first)) == 3


def test_the_cases_are_those_of_a_campaign(cases):
    with ProducerClient(cases.seed, as_json(cases.config)) as producer:
        made = producer.produce(Numbered(cases.seed, 2))
    assert made.digest() == cases[2].digest()


def test_settings_decide_what_models_are_made_of(cases):
    for case in itertools.islice(cases, 3):
        assert {node.op for node in case.graph.nodes} <= {"Add", "Mul", "Relu", "Sub"}
        assert {array.dtype.name for array in case.inputs.values()} == {"float32"}


def test_sizes_are_a_word():
    shares = {w: nnfuzz.Generator(sizes=w).config.large for w in ("small", "mixed", "large")}
    assert shares == {"small": 0.0, "mixed": 0.1, "large": 1.0}


def test_an_index_without_a_test_case_is_passed_over(cases, monkeypatch):
    failed = NotProduced(Numbered(0, 0), "inputs", "no valid input")
    produce = cases._producer.produce
    monkeypatch.setattr(cases._producer, "produce", lambda i: produce(i) if i else failed)
    assert next(iter(cases)).id.index == 1
    with pytest.raises(nnfuzz.NoTestCase, match="index 0 gives no test case: no valid input"):
        cases[0]
    monkeypatch.setattr(cases._producer, "produce", lambda i: failed)
    with pytest.raises(nnfuzz.NoTestCase, match="100 indexes in a row"):
        next(iter(cases))


def test_mistakes_are_told():
    with pytest.raises(ValueError, match="no dtype 'float33'"):
        nnfuzz.Generator(dtypes=["float33"])
    with pytest.raises(ValueError, match="unknown exporter 'onnx'"):
        nnfuzz.Generator(exporter="onnx")
    with pytest.raises(TypeError, match="node"):
        nnfuzz.Generator(node=3)
    with pytest.raises(ValueError, match="no size 'tiny': write small, mixed or large"):
        nnfuzz.Generator(sizes="tiny")
    with pytest.raises(IndexError):
        nnfuzz.Generator()[-1]


def test_exporters_take_turns():
    assert nnfuzz.Generator(exporter="mixed").config.exporters == ("direct", "torchscript")


def test_an_unknown_setting_is_named_with_the_one_that_was_meant():
    with pytest.raises(TypeError, match="there is no setting 'node'; did you mean 'nodes'"):
        nnfuzz.Generator(node=3)
