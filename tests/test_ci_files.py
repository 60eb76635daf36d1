"""What other teams' CI takes from the repository: the action, the image, nightly wheels.

Their services are not at hand: the steps of the action run as shell scripts, the recipe of the
image by its own commands with a stand-in for pip.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.corpus import consumers
from tests.test_commands_of_the_docs import BROKEN

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", "")


def step(name, folder, **inputs):
    """Runs a step of the action as its runner does, with inputs and their defaults."""
    chosen = {key: about.get("default", "") for key, about in ACTION["inputs"].items()} | inputs
    assert chosen.keys() == ACTION["inputs"].keys()
    env = {
        key: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: chosen[m[1]], value)
        for key, value in STEPS[name]["env"].items()
    }
    env["CHECKOUT"] = str(ROOT)
    assert "${{" not in STEPS[name]["run"], "inputs in a script could inject commands"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    summary = {"GITHUB_STEP_SUMMARY": str(folder / "step.md"), "PATH": path}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]],
        cwd=folder,
        env={**os.environ, **env, **summary},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_the_action_verifies_models_and_sees_a_planted_failure(tmp_path):
    pytest.importorskip("onnxruntime")
    good = consumers.corpus(tmp_path / "good")
    name = consumers.spoiled(good, tmp_path / "bad")
    for file in (tmp_path / "bad").glob("*/nnfuzz.json"):
        file.unlink()
    options = {"backend": "onnxruntime", "arguments": "--level O0 --time 10m"}
    done = step("Run", tmp_path, models="good", **options)
    assert done.returncode == 0, done.stderr
    done = step("Run", tmp_path, models="bad", **options)
    assert done.returncode == 1 and name in done.stdout, done.stderr
    assert name in (tmp_path / "step.md").read_text()
    assert "<failure" in (tmp_path / "nnfuzz-out" / "ci" / "results.xml").read_text()


@pytest.mark.slow
def test_the_action_fuzzes_without_models(tmp_path):
    pytest.importorskip("onnxruntime")
    arguments = "--tests 2 --nodes 2 --exporter direct --set probe=0 --set reduce=no --seed 3"
    done = step("Run", tmp_path, backend="onnxruntime", arguments=arguments)
    assert done.returncode in (0, 1), done.stderr
    assert (tmp_path / "step.md").read_text().startswith("## nnfuzz fuzz onnxruntime")
    assert (tmp_path / "nnfuzz-out" / "ci" / "campaign" / "summary.json").exists()


def test_the_action_installs_the_wheel_of_an_earlier_job(tmp_path, stub):
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "mine-1.0-py3-none-any.whl").write_bytes(b"")
    env = {**stub, "WHEEL": "dist/*.whl"}
    command = ["bash", "-ec", STEPS["Wheel"]["run"]]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.split()[3:] == [
        "--quiet", "--force-reinstall", "--no-deps", "dist/mine-1.0-py3-none-any.whl"
    ]  # fmt: skip


@pytest.mark.slow
def test_the_recipe_of_a_nightly_job_keeps_a_ledger(tmp_path):
    """Its steps in order, on a compiler that fails: a night knows the bug of the one before."""
    pytest.importorskip("onnxruntime")
    page = (ROOT / "docs" / "CI.md").read_text()
    (steps,) = (
        job["steps"]
        for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        for job in yaml.safe_load(block)["jobs"].values()
        if any(own.get("with", {}).get("mode") == "nightly" for own in job["steps"])
    )
    (inputs,) = (own["with"] for own in steps if own.get("uses", "").startswith("nnfuzz/"))
    assert "--time" in inputs["arguments"] and inputs["backend"] == "onnxsim"
    few = "--plugin broken.py --tests 1 --nodes 2 --exporter direct --set probe=0 --seed 3"
    home, out = tmp_path / "checkout", Path("nnfuzz-out", "ci")
    bash(f"git init -q --bare server && git clone -q server {home}", tmp_path)
    (home / "broken.py").write_text(BROKEN)
    for night, code in enumerate((1, 0)):
        done = step("Run", home, **inputs | {"backend": "broken", "arguments": few})
        assert done.returncode == code, done.stdout + done.stderr
        assert (home / out / "results.xml").is_file()
        for own in steps:
            bash(own.get("run", "true").replace("check", "check --plugin broken.py"), home)
        (home / out).rename(tmp_path / f"night{night}")
        (bug,) = (home / "bugs").rglob("bug.toml")
    assert "held back" in done.stdout
    assert bug.parent.name in (home / "step.md").read_text()
    assert "Bugs of this night" in bash("git log --format=%s @{upstream}", home)


def bash(script: str, folder: Path) -> str:
    """What a step of a workflow prints."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "step.md")}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def stub(tmp_path):
    """A `python` that prints what it is called with, first in PATH."""
    (tmp_path / "bin").mkdir()
    file = tmp_path / "bin" / "python"
    file.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    file.chmod(0o755)
    return {**os.environ, "PATH": f"{file.parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize("torch", ["cpu", "auto"])
def test_the_image_installs_extras_that_there_are(stub, torch):
    (command,) = re.findall(r"^RUN (python .*?) *&& rm", DOCKERFILE, re.MULTILINE)
    (uv,) = re.findall(r"&& uv (.*)", command)
    assert re.findall(r"^ARG TORCH=(.*)$", DOCKERFILE, re.MULTILINE) == ["cpu"]
    env = {**stub, "TORCH": torch}
    done = subprocess.run(["sh", "-ec", f"python {uv}"], env=env, capture_output=True, text=True)
    words = done.stdout.split()
    assert words[:4] == ["pip", "install", "--system", "--no-cache"]
    assert words[4:-1] == ["--torch-backend", torch]
    extras = re.fullmatch(r"/src\[(.*)\]", words[-1])[1].split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras) <= project["optional-dependencies"].keys()
    version = re.search(r"FROM python:(3\.\d+)", DOCKERFILE)[1]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_the_image_runs_nnfuzz():
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)
    program = [sys.executable, *yaml.safe_load(entry)[1:], "--version"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("nnfuzz ")


@pytest.mark.slow
def test_nightly_wheels_are_newer_and_asked_for_with_pre(tmp_path):
    pytest.importorskip("build")
    from packaging.version import Version

    env = {**os.environ, "PYTHON": sys.executable, "OUT": str(tmp_path)}
    env["BUILD_OPTIONS"] = "--no-isolation"
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    command = [ROOT / ".ci" / "nightly", "20261122"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    found = Version(wheel.name.split("-")[1])
    released = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert found.is_devrelease and found > Version(released)


@pytest.mark.parametrize(
    "package, extras, installed",
    [
        ("", "", ["/the action"]),
        ("", "onnxruntime,tvm", ["/the action[onnxruntime,tvm]"]),
        ("nnfuzz[tvm] torch", "onnxruntime", ["nnfuzz[tvm]", "torch"]),
    ],
)
def test_the_action_installs_its_own_checkout(package, extras, installed):
    install = STEPS["Install"]
    assert install["env"]["CHECKOUT"] == "${{ github.action_path }}"
    script = f"python() {{ printf '%s\\n' \"$@\"; }}\n{install['run']}"
    env = {"PACKAGE": package, "EXTRAS": extras, "CHECKOUT": "/the action"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True)
    assert done.stdout.splitlines()[4:] == installed, done.stdout
