"""Corpora in folders, and what is written beside them."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.reading import Unreadable
from nnfuzz.corpus.generate import models_under_pytest
from nnfuzz.corpus.layout import NotTensors, TestFolder, find_tests, write_test
from nnfuzz.corpus.results import junit_xml, results_page
from nnfuzz.corpus.select import copy_test
from nnfuzz.corpus.verify import LevelResult, Status
from tests.command import nnfuzz
from tests.corpus import consumers

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
    copy_test(test, tmp_path / "other" / test.name)
    assert find_tests(tmp_path / "other")[0].model() == model


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
    with pytest.raises(Unreadable, match="holds 1 inputs, the model has 2"):
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
    with pytest.raises(Unreadable, match="schema 9"):
        TestFolder(folder, "t").case()


def test_missing_input_is_refused(case, tmp_path):
    from dataclasses import replace

    with pytest.raises(Unreadable, match="has no inputs s"):
        write_test(tmp_path, replace(case, inputs={"x": case.inputs["x"]}))


# The summary of results as a page of Markdown.


FAILED = LevelResult("test_a1", "tvm", "O3", Status.FAILED, "y[0] is 1", kind="mismatch")


PASSED = LevelResult("test_a2", "tvm", "O3", Status.PASSED)


SKIPPED = LevelResult("test_b", "tvm", "O3", Status.SKIPPED, "unsupported: Pad|x")


def test_the_summary_shows_what_matters_and_nothing_breaks_it():
    hostile = LevelResult("t`|<b>", "tvm", "O0", Status.FAILED, "a | b\n<script>", kind="mismatch")
    known = replace(FAILED, status=Status.KNOWN)
    text = results_page([hostile, PASSED, SKIPPED, known], "models: tvm", ["expired: x"])
    assert "| tvm | O0 | 0 | 1 | 0 | 0 |" in text and "<script>" not in text
    failures = text.partition("### Failures")[2].partition("<details>")[0]
    assert all(line.count(" | ") == 3 for line in failures.splitlines() if line.startswith("| "))
    assert "1 known" in text and "1 skipped" in text and text.endswith("- expired: x\n")


def test_the_summary_of_many_failures_is_short():
    many = [LevelResult(f"t{i}", "tvm", "O0", Status.FAILED, "x" * 9999) for i in range(5000)]
    text = results_page(many, "models")
    assert len(text) < 60_000 and "... and 4950 more" in text


# Results as JUnit XML.


def test_junit():
    results = [
        LevelResult("a", "toy", "O0", Status.PASSED, seconds=0.5),
        LevelResult("b<&>", "toy", "O0", Status.FAILED, 'wrong "x"\nmore', "\x1b[1m\x00]]>", 0.25),
        LevelResult("c", "toy", "O1", Status.SKIPPED, "unsupported"),
        LevelResult("d", "toy", "O1", Status.ERROR, "damaged"),
    ]
    root = ElementTree.fromstring(junit_xml(results, "my\x07suite"))
    (suite,) = root
    assert suite.attrib["tests"] == "4" and suite.attrib["time"] == "0.750000"
    assert [suite.attrib[k] for k in ("failures", "errors", "skipped")] == ["1", "1", "1"]
    assert [[child.tag for child in case] for case in suite] == [
        [],
        ["failure"],
        ["skipped"],
        ["error"],
    ]
    assert suite[1].attrib["name"] == "b<&>" and "\x1b" not in suite[1][0].text


# test_models.py of a corpus, run by pytest in a process that cannot import nnfuzz.


SMALL = (
    *("--count", "2", "--seed", "4", "--nodes", "4", "--exporter", "direct", "--opset", "18"),
    *("--operators", "Add,Mul,Relu,Conv,MatMul,Softmax,Transpose"),
    *("--exclude-dtypes", "float64,float16,bfloat16"),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    pytest.importorskip("onnxruntime")
    out = tmp_path_factory.mktemp("pytest_file") / "models"
    made = nnfuzz("generate", *SMALL, "--out", out)
    assert made.returncode == 0, made.stderr
    return out


def run(folder, *absent):
    """What pytest counts: {"passed": 4}; as if the modules in `absent` were not installed."""
    code = f"import sys, pytest; sys.modules.update(dict.fromkeys({('nnfuzz', *absent)!r})); "
    code += "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'test_models.py']))"
    line = [sys.executable, "-c", code]
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        line, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    last = done.stdout.strip().splitlines()[-1]
    return {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}


def test_the_models_pass_without_nnfuzz(models):
    assert run(models) == {"passed": 4}


def test_a_wrong_expected_output_fails(models, tmp_path):
    consumers.spoiled(models, tmp_path / "bad")
    assert run(tmp_path / "bad") == {"failed": 2, "passed": 2}


@pytest.mark.parametrize("absent", ["onnx", "onnxruntime"])
def test_what_is_not_installed_is_skipped(models, absent):
    assert set(run(models, absent)) == {"skipped"}


@pytest.mark.parametrize("name", ["onnxruntime", "tvm", "openvino"])
def test_it_runs_the_compiler_that_is_asked_for(name):
    registry = BackendRegistry.discover()
    spec = registry.parse(name)
    text = models_under_pytest(registry, spec, pytest.fail)
    compile(text, "test_models.py", "exec")
    assert f"under {name}:" in text and "nnfuzz" not in text
    assert f"LEVELS = {list(registry.get(name).default_levels())!r}" in text
    assert re.search(rf"^ +(import|from) {name}\b", text, re.MULTILINE)


def test_a_compiler_without_a_program_of_its_own_makes_way_for_the_usual_one(tmp_path):
    plugin = tmp_path / "silent.py"
    plugin.write_text(
        "from nnfuzz.backend.contract import Backend\n\n\nclass Silent(Backend):\n"
        '    """A compiler without a script."""\n\n    name = "silent"\n    levels = ("O0",)\n\n'
        "    @classmethod\n    def versions(cls):\n        return {}\n\n"
        "    def load(self, model):\n        return model\n\n"
        "    def build(self, module, level):\n        return None\n"
    )
    registry = BackendRegistry.discover([plugin])
    notes = []
    text = models_under_pytest(registry, registry.parse("silent"), notes.append)
    assert "silent offers no program" in notes[0] and "under onnxruntime:" in text
