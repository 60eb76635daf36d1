"""Polygraphy's command line with the script that stands in every corpus."""

import json
import shutil
import subprocess
import sys
from importlib.metadata import distribution

import pytest

pytest.importorskip("polygraphy")
pytest.importorskip("onnxruntime")


def script():
    """The program, wherever its package was installed."""
    (file,) = [f for f in distribution("polygraphy").files or () if f.name == "polygraphy"]
    return str(file.locate())


def polygraphy(folder, name):
    told = json.loads((folder / name / "data.json").read_text())
    relative = [f"{output}:{t['rtol']}" for output, t in told["outputs"].items()]
    absolute = [f"{output}:{t['atol']}" for output, t in told["outputs"].items()]
    golden = folder / "golden.json"
    make = [sys.executable, folder / "polygraphy_data.py", folder / name, golden]
    subprocess.run(make, check=True, capture_output=True, timeout=120)
    run = ["run", f"{name}/model.onnx", "--onnxrt", "--data-loader-script", "polygraphy_data.py"]
    run += ["--load-outputs", "golden.json", "--rtol", *relative, "--atol", *absolute]
    command = [sys.executable, script(), *run]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_a_right_model_passes_and_a_planted_failure_is_seen(spoiled, corpus, tmp_path):
    folder, name = spoiled
    good = shutil.copytree(corpus, tmp_path / "good")
    code, told = polygraphy(good, name)
    assert code == 0 and "PASSED" in told, told
    bad = shutil.copytree(folder, tmp_path / "bad")
    code, told = polygraphy(bad, name)
    assert code == 1 and "FAILED" in told, told
