"""The examples of the library run as they stand."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import nnfuzz

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
BROKEN = '''
import numpy as np
from nnfuzz.backends.onnxruntime import OnnxRuntime


class Broken(OnnxRuntime):
    """ONNX Runtime that is wrong everywhere."""

    name = "broken"

    def build(self, module, level):
        program = super().build(module, level)
        return lambda inputs: {n: np.zeros((7, 7), a.dtype) for n, a in program(inputs).items()}
'''


@pytest.fixture
def run(tmp_path):
    def running(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )

    return running


@pytest.mark.slow
def test_fuzzing_a_compiler(run):
    done = run(EXAMPLES / "fuzz_a_compiler.py", "onnxruntime/O0", "2")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_fuzzing_a_broken_compiler_writes_findings(run, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    text = (EXAMPLES / "fuzz_a_compiler.py").read_text()
    own = text.replace("Experiment([compiler])", 'Experiment([compiler], plugins=["broken.py"])')
    assert own != text
    (tmp_path / "own.py").write_text(
        own.replace("nodes=10", 'nodes=1, operators=["Relu"], dtypes=["float32"]')
    )
    done = run("own.py", "broken/O0", "1")
    assert done.returncode == 0, done.stderr
    assert "wrong shape" in done.stdout
    assert [path.name for path in tmp_path.glob("out/*/repro.py")] == ["repro.py"]


@pytest.fixture
def mine(tmp_path):
    """mine.onnx: a model with a weight and a dynamic batch."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[n, 2] x) => (float[n, 2] y)'
        "{ a = MatMul(x, w)  y = Sigmoid(a) }"
    )
    weight = numpy_helper.from_array(np.float32([[1, 2], [3, 4]]), "w")
    model.graph.initializer.append(weight)
    onnx.save(model, tmp_path / "mine.onnx")


@pytest.mark.slow
def test_judging_outputs_of_ones_own(run, mine, tmp_path):
    done = run(EXAMPLES / "judge_my_outputs.py", "mine.onnx")
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("yours: agrees; intervals of y are ") and second == "y: correct is from"
    text = (EXAMPLES / "judge_my_outputs.py").read_text()
    wrong = text.replace("dict(zip(", "dict((n, a * 2) for n, a in zip(")
    (tmp_path / "wrong.py").write_text(wrong)
    done = run("wrong.py", "mine.onnx")
    assert done.returncode == 1 and done.stdout.startswith("yours: y[1, 1] is "), done.stderr


@pytest.mark.slow
def test_checking_a_model_of_ones_own(run, mine, tmp_path):
    done = run(EXAMPLES / "check_my_model.py", "mine.onnx", "onnxruntime")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("right: all outputs on all 3 targets")
    (tmp_path / "mine.onnx").write_bytes(b"\xff")
    done = run(EXAMPLES / "check_my_model.py", "mine.onnx")
    assert done.returncode == 1 and "mine.onnx: " in done.stderr


@pytest.mark.slow
def test_ten_models_as_a_test(run, tmp_path):
    shutil.copy(EXAMPLES / "test_ten_models.py", tmp_path)  # away from pytest's settings of ours
    done = run("-m", "pytest", "-p", "no:cacheprovider", "test_ten_models.py")
    assert done.returncode == 0, done.stdout
    passed, skipped = (re.search(rf"(\d+) {kind}", done.stdout) for kind in ("passed", "skipped"))
    few = int(skipped[1]) if skipped else 0  # undefined by ONNX: nothing is compared
    assert passed and int(passed[1]) + few == 10 and few <= 2


def test_every_page_shows_the_same_first_example():
    pages = [ROOT / "README.md", ROOT / "docs" / "API.md"]
    blocks = [re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)[0] for page in pages]
    assert blocks[0] == blocks[1]
    compile(blocks[0], "README.md", "exec")
    for line in blocks[0].splitlines():
        assert line.split("import itertools, ")[-1] in nnfuzz.__doc__
