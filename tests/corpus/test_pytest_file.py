"""test_models.py of a corpus, run by pytest in a process that cannot import nnfuzz."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.cli.main import application
from nnfuzz.corpus.pytest_file import pytest_file
from tests.corpus import consumers

SMALL = (
    *("--count", "2", "--seed", "4", "--nodes", "4", "--exporter", "direct", "--opset", "18"),
    *("--operators", "Add,Mul,Relu,Conv,MatMul,Softmax,Transpose"),
    *("--exclude-dtypes", "float64,float16,bfloat16"),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    pytest.importorskip("onnxruntime")
    out = tmp_path_factory.mktemp("pytest_file") / "models"
    made = CliRunner().invoke(application(), ["generate", *SMALL, "--out", str(out)])
    assert made.exit_code == 0, made.output
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
    text = pytest_file([spec], registry)
    compile(text, "test_models.py", "exec")
    assert f"under {name}:" in text and "nnfuzz" not in text
    assert f"LEVELS = {list(registry.get(name).default_levels())!r}" in text
    assert re.search(rf"^ +(import|from) {name}\b", text, re.MULTILINE)


def test_a_compiler_without_a_program_of_its_own_gives_none(tmp_path):
    plugin = tmp_path / "silent.py"
    plugin.write_text(
        "from nnfuzz.backend.contract import Backend\n\n\nclass Silent(Backend):\n"
        '    """A compiler without a script."""\n\n    name = "silent"\n    levels = ("O0",)\n\n'
        "    @classmethod\n    def versions(cls):\n        return {}\n\n"
        "    def load(self, model):\n        return model\n\n"
        "    def build(self, module, level):\n        return None\n"
    )
    registry = BackendRegistry.discover([plugin])
    assert pytest_file([registry.parse("silent")], registry) == ""
