"""The examples of the library run as they stand."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

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


def test_fuzzing_a_compiler(run):
    done = run(EXAMPLES / "fuzz_a_compiler.py", "onnxruntime/O0", "2")
    assert done.returncode == 0, done.stderr


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


def test_checking_a_model_of_ones_own(run, tmp_path):
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[n, 2] x) => (float[n, 2] y)'
        "{ a = MatMul(x, w)  y = Sigmoid(a) }"
    )
    weight = numpy_helper.from_array(np.float32([[1, 2], [3, 4]]), "w")
    model.graph.initializer.append(weight)
    onnx.save(model, tmp_path / "mine.onnx")
    done = run(EXAMPLES / "check_my_model.py", "mine.onnx", "onnxruntime")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2 and done.stdout.count(": ok") == 2
    (tmp_path / "mine.onnx").write_bytes(b"\xff")
    done = run(EXAMPLES / "check_my_model.py", "mine.onnx")
    assert done.returncode == 1 and "mine.onnx: " in done.stderr


def test_ten_models_as_a_test(run, tmp_path):
    shutil.copy(EXAMPLES / "test_ten_models.py", tmp_path)  # away from pytest's settings of ours
    done = run("-m", "pytest", "-p", "no:cacheprovider", "test_ten_models.py")
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout
