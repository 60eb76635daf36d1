"""The plug-in of pytest, as a team's CI runs it: in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")
ROOT = Path(__file__).parents[2]


def run(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-p", "nnfuzz.pytest_plugin", "-rA", "--no-header"]
    command += ["-p", "no:cacheprovider", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_one_test_per_model_and_a_planted_failure_is_seen(spoiled, tmp_path):
    folder, name = spoiled
    for file in folder.glob("*/nnfuzz.json"):
        file.unlink(missing_ok=True)  # by tolerance, since the envelope does not read outputs
    options = ("--nnfuzz-models", folder, "--nnfuzz-backend", "onnxruntime", "--nnfuzz-level", "O0")
    code, told = run(tmp_path, *options)
    assert code == 1 and "1 failed, 3 passed" in told, told
    assert f"{name}[onnxruntime]" in told and "test_data_set_1" in told
    assert "Traceback" not in told
    (tmp_path / "known.txt").write_text(f"{name} # issue 7\n")
    code, told = run(tmp_path, *options, "--nnfuzz-xfail", "known.txt", "-k", name)
    assert code == 0 and "1 xfailed" in told and "issue 7" in told, told


def test_own_tests_run_beside_the_models(corpus, tmp_path):
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n")
    options = ("--nnfuzz-models", corpus, "--nnfuzz-backend", "onnxruntime", "--nnfuzz-level", "O3")
    code, told = run(tmp_path, *options, "test_mine.py")
    assert code == 0 and "5 passed" in told, told


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--nnfuzz-models", "."), "there is no model.onnx below it"),
        (("--nnfuzz-models", "{corpus}"), "needs --nnfuzz-backend"),
        (("--nnfuzz-models", "{corpus}", "--nnfuzz-backend", "tmv"), "did you mean 'tvm'"),
    ],
)
def test_mistakes_are_told(corpus, tmp_path, arguments, message):
    told = [a.format(corpus=corpus) for a in arguments]
    if told == ["--nnfuzz-models", "."]:
        told += ["--nnfuzz-backend", "onnxruntime"]
    code, output = run(tmp_path, *told)
    assert code == 4 and message in output, output


def test_it_costs_nothing_where_it_is_not_used(tmp_path):
    (tmp_path / "test_light.py").write_text(
        "import sys\n"
        "def test_light():\n"
        "    heavy = {'numpy', 'torch', 'onnx', 'z3', 'typer', 'nnfuzz.corpus', 'nnfuzz.backend'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    code, told = run(tmp_path, "-p", "no:hypothesispytest", "test_light.py")
    assert code == 0, told


def test_it_is_installed_under_the_name_of_its_module():
    """So that -p nnfuzz.pytest_plugin does not load it twice."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points["pytest11"] == {"nnfuzz.pytest_plugin": "nnfuzz.pytest_plugin"}
