"""Our folders are ONNX backend tests, and foreign ones can be read."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnfuzz.base.reading import Unreadable
from nnfuzz.corpus.layout import CorpusError, NotTensors, TestFolder, find_tests, write_test
from nnfuzz.corpus.pick import SourceTest
from nnfuzz.vary.rewrite.rewriting import Step, rewritten

from .by_hand import model_of


def test_written_as_onnx_reads_it(case, tmp_path):
    from onnx.reference import ReferenceEvaluator

    folder = write_test(tmp_path, case)
    assert folder.name == "test_nnfuzz_seed7_000003"
    tensors = {}
    for file in (folder / "test_data_set_0").iterdir():
        tensor = onnx.load_tensor(file)
        tensors[file.stem] = (tensor.name, onnx.numpy_helper.to_array(tensor))
    assert [tensors[k][0] for k in ("input_0", "input_1", "output_0")] == ["x", "s", "y"]
    assert tensors["input_1"][1].shape == ()  # a scalar stays a scalar
    session = ReferenceEvaluator(str(folder / "model.onnx"))
    feeds = dict(v for k, v in tensors.items() if k.startswith("input"))
    np.testing.assert_allclose(session.run(None, feeds)[0], tensors["output_0"][1])


def test_comes_back(case, tmp_path):
    write_test(tmp_path, case)
    (test,) = find_tests(tmp_path)
    back = test.case()
    assert (back.id, back.graph, back.model) == (case.id, case.graph, case.model)
    for group in ("inputs", "weights", "expected"):
        have, want = getattr(back, group), getattr(case, group)
        assert list(have) == list(want)
        for name in want:
            np.testing.assert_array_equal(have[name], want[name])
            assert have[name].dtype == want[name].dtype and have[name].shape == want[name].shape


def test_external_data_lies_beside_the_model(case, tmp_path):
    """It comes back, and goes into the copy that a selection makes."""
    proto = onnx.load_model_from_string(case.model)
    weight = onnx.numpy_helper.from_array(np.ones(2, np.float32), "more")
    weight.external_data.add(key="location", value="data/w.bin")
    proto.graph.initializer.append(weight)
    case = replace(case, model=proto.SerializeToString(deterministic=True))
    folder = write_test(tmp_path / "one", case)
    assert (folder / "model.onnx.data").stat().st_size == 8
    (test,) = find_tests(tmp_path / "one")
    model = test.model()
    assert test.case().model == model
    (back,) = (t for t in onnx.load_model_from_string(model).graph.initializer if t.name == "more")
    assert back.external_data[0].value == "model.onnx.data"
    SourceTest.of(test, test.name, []).copy(tmp_path / "other")
    assert find_tests(tmp_path / "other")[0].model() == model


@pytest.mark.parametrize("rule", ["text_output", "text_input"])
def test_strings_come_back_as_numbers(rule, case, tmp_path):
    proto, whole = onnx.load_model_from_string(case.model), np.array([1, -2])
    for values, name in ((proto.graph.input, "n"), (proto.graph.output, "m")):
        values.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [2]))
    proto.graph.node.append(onnx.helper.make_node("Neg", ["n"], ["m"]))
    case = replace(
        case, inputs={**case.inputs, "n": whole}, expected={**case.expected, "m": -whole}
    )
    model, done = rewritten(proto.SerializeToString(), [Step(rule)])
    assert done
    write_test(tmp_path, replace(case, model=model))
    (test,) = find_tests(tmp_path)
    (back,) = test.data_sets()
    for have, want in ((back.inputs, case.inputs), (back.outputs, case.expected)):
        assert {*have} == {*want}
        for name in want:
            np.testing.assert_array_equal(have[name], want[name])


def test_equal_cases_give_equal_bytes(case, tmp_path):
    one, other = (write_test(tmp_path / name, case) for name in "ab")
    files = [p.relative_to(one) for p in one.rglob("*") if p.is_file()]
    assert len(files) == 6
    assert all((one / f).read_bytes() == (other / f).read_bytes() for f in files)


def test_nothing_half_written(case, tmp_path):
    class Full:
        def __init__(self, case):
            self.case = case

        def __getattr__(self, name):
            if name == "weights":
                raise OSError("no space left on device")
            return getattr(self.case, name)

    with pytest.raises(OSError):
        write_test(tmp_path, Full(case))
    assert list(tmp_path.iterdir()) == []


def test_foreign_tests_have_no_case(case, tmp_path):
    (write_test(tmp_path, case) / "nnfuzz.json").unlink()
    (test,) = find_tests(tmp_path)
    assert test.case() is None and list(test.data_sets()[0].inputs) == ["x", "s"]


def test_data_sets_in_numerical_order(case, tmp_path):
    folder = write_test(tmp_path, case)
    for number in (2, 10):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for file in (folder / "test_data_set_0").iterdir():
            (data / file.name).write_bytes(file.read_bytes())
    names = [d.name for d in TestFolder(folder, "t").data_sets()]
    assert names == ["test_data_set_0", "test_data_set_2", "test_data_set_10"]


def test_errors_name_the_file(case, tmp_path):
    folder = write_test(tmp_path, case)
    test = TestFolder(folder, "t")
    (folder / "test_data_set_0" / "input_1.pb").write_bytes(b"\xff\xff")
    with pytest.raises(Unreadable, match=r"input_1\.pb is damaged"):
        test.data_sets()
    (folder / "test_data_set_0" / "input_1.pb").unlink()
    with pytest.raises(CorpusError, match="holds 1 inputs, the model has 2"):
        test.data_sets()
    (folder / "model.onnx").write_bytes(b"\xff\xff")
    with pytest.raises(Unreadable, match="the model is damaged"):
        test.data_sets()


def test_sequences_and_strings_are_not_for_us(case, tmp_path):
    folder = write_test(tmp_path, case)
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [2])
    (folder / "model.onnx").write_bytes(model_of([], [sequence], []))
    with pytest.raises(NotTensors):
        TestFolder(folder, "t").data_sets()


def test_schema_is_checked(case, tmp_path):
    folder = write_test(tmp_path, case)
    data = json.loads((folder / "nnfuzz.json").read_text())
    (folder / "nnfuzz.json").write_text(json.dumps({**data, "schema": 9}))
    with pytest.raises(CorpusError, match="schema 9"):
        TestFolder(folder, "t").case()


def test_missing_input_is_refused(case, tmp_path):
    from dataclasses import replace

    with pytest.raises(CorpusError, match="has no inputs s"):
        write_test(tmp_path, replace(case, inputs={"x": case.inputs["x"]}))
