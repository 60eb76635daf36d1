"""What `nnfuzz init` writes works as it stands, or says what is to be filled in."""

import ast
import shlex
import sys

import pytest
import yaml

from nnfuzz.backend.conformance import check_backend, standard_probes
from tests.backend.program_backend import PROGRAM
from tests.command import told

FUNCTION = """
import onnx
from onnx.reference import ReferenceEvaluator


def compute(model, inputs):
    proto = onnx.load_model_from_string(model)
    names = [value.name for value in proto.graph.output]
    return dict(zip(names, ReferenceEvaluator(proto).run(None, inputs)))
"""
CORE = standard_probes()[:2]


@pytest.fixture
def places(tmp_path):
    (tmp_path / "summing.py").write_text(FUNCTION)
    program = [sys.executable, str(tmp_path / "program.py")]
    text = PROGRAM.replace(
        "model, level", 'if sys.argv[1] == "--version":\n    sys.exit(print(1.5))\nmodel, level'
    )
    (tmp_path / "program.py").write_text(text)
    given = ["{model}", "{level}", "{inputs}", "{outputs}"]
    return {
        "function": ("summing:compute",),
        "command": (f"{shlex.join(program)} {' '.join(given)}",),
        "package": ("onnx",),
    }


@pytest.mark.parametrize("kind", ["function", "command"])
def test_what_is_a_function_or_a_program_needs_no_further_line(tmp_path, places, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = told("init", "backend", "made", *places[kind])
    plugin = tmp_path / "made_backend.py"
    assert code == 0, text
    assert "next: nnfuzz backends --check made --plugin made_backend.py" in text
    fates = check_backend("made", [plugin], CORE, say=lambda line: None)
    assert set(fates.values()) == {"ok"}
    written = (tmp_path / "test_made_backend.py").read_text()
    assert 'with_name("made_backend.py")' in written and ast.parse(written)


def test_a_package_says_which_lines_are_to_be_filled_in(tmp_path, places):
    code, _ = told("init", "backend", "made-up", *places["package"], "--out", tmp_path)
    plugin = tmp_path / "made_up_backend.py"
    assert code == 0 and "# What reads a model" in plugin.read_text()
    with pytest.raises(AssertionError, match=r"made_up_backend.py.*\n.*onnx.load"):
        check_backend("made-up", [plugin], CORE, say=lambda line: None)
    workflow = yaml.safe_load((tmp_path / ".github/workflows/nnfuzz-made-up.yml").read_text())
    used = [step for step in workflow["jobs"]["fuzz"]["steps"] if "with" in step][-1]["with"]
    assert used["arguments"] == "--plugin made_up_backend.py --time 1h"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("operator", "a", "p"), "there are no files for 'operator'"),
        (("backend", "A b", "p"), "is no name"),
        (("backend", "a", "toyc {model}"), "no command, which needs {inputs}"),
        (("backend", "a", "toyc --run"), "no module, such as toyc or toyc.api:run"),
    ],
)
def test_mistakes_name_the_fix(tmp_path, words, said):
    code, text = told("init", *words, "--out", tmp_path)
    assert code == 2 and said in text
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "test_a_backend.py").write_text("mine")
    code, text = told("init", "backend", "a", "p", "--out", tmp_path)
    assert code == 2 and "test_a_backend.py is there already" in text
    assert [file.name for file in tmp_path.iterdir()] == ["test_a_backend.py"]
