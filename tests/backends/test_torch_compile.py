"""The adapter of torch.compile: levels, option sets, what it says, and its reproduction script."""

import ast
import os
import subprocess
import time
from functools import reduce
from random import Random

import numpy as np
import pytest
from nnfuzz.backends import torch_compile
from nnfuzz.backends.torch_compile import TorchCompile

from nnfuzz.backend.complaint import CompilerError, Stage
from nnfuzz.backend.conformance import check_backend, standard_probes
from nnfuzz.backend.contract import BackendUnavailable
from nnfuzz.backend.modules import read_source
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import EXPORTED, MODULE
from tests.models import chain

pytestmark = pytest.mark.skipif(bool(TorchCompile.missing()), reason=str(TorchCompile.missing()))
MODEL = chain("Relu", "Neg")
X = np.array([[-1, 0.5, 2], [3, 4, 5]], np.float32)


@pytest.mark.slow
def test_conformance():
    probes = [p for p in standard_probes() if p.name == "two outputs, one used inside"]
    assert set(check_backend("torch", probes=probes).values()) == {"ok"}


@pytest.mark.slow
def test_stages_are_switched_off_behind_settings_as_well():
    registry = BackendRegistry.discover()
    level = "inductor+cpp.simdlen=1"
    with BackendRunner(registry.parse("torch"), registry) as runner:
        passes = runner.fired_passes(MODEL, level)
        assert passes and "fusion" in passes and runner.fired_passes(MODEL, "eager") == []
        (outcome,) = runner.run(MODEL, {"x": X}, [level], without=passes)
    np.testing.assert_array_equal(outcome.outputs["y"], -np.maximum(X, 0))
    assert outcome.target.pipeline == level


def test_settings_exist_and_are_not_inductors_own():
    from torch._inductor import config

    for step in TorchCompile.steps:
        name, _, value = step.partition("=")
        own = reduce(getattr, name.split("."), config)
        assert own != ast.literal_eval(value), step


def test_drawn_pipelines_are_settings_of_inductor():
    drawn = [TorchCompile().draw_pipeline(Random(seed)) for seed in range(200)]
    for pipeline in drawn:
        TorchCompile.check_level(str(pipeline))
    assert {step for pipeline in drawn for step in pipeline.steps} == {*TorchCompile.steps}
    assert {pipeline.level for pipeline in drawn} == {"inductor", "dynamic"}


@pytest.mark.filterwarnings("ignore:.*script_method.* is deprecated")  # PyTorch's own use
@pytest.mark.parametrize(
    ("form", "level"),
    [
        (MODULE, "eager"),
        (EXPORTED, "eager"),
        pytest.param(MODULE, "inductor+cpp.simdlen=1+max_fusion_size=1", marks=pytest.mark.slow),
    ],
)
def test_the_script_for_reports_runs_alone(form, level):
    code, space = read_source(MODEL).code(), {}
    program = TorchCompile(form=form).repro()
    exec("import base64\nimport numpy as np\nimport torch\n" + code + program, space)
    found = space["run"](space["Module"](), {"x": X}, level)
    np.testing.assert_array_equal(found["y"], -np.maximum(X, 0))


def test_without_a_compiler_for_generated_code_it_says_how_to_get_one(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "apt install g++" in str(TorchCompile.missing())


def test_an_absent_gpu_is_explained():
    try:
        TorchCompile(device="cuda").versions()
    except BackendUnavailable as error:
        assert "device=cuda needs an NVIDIA GPU" in str(error)
    else:
        pytest.skip("there is a device")


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        (
            "C++ compile error\n\nCommand:\ng++ /tmp/a.cpp\n\nOutput:\n/tmp/a.cpp:7:3: error: "
            "no match for 'operator+'\n    7 | x + y",
            "no match for 'operator+'",
        ),
        (
            "backend='inductor' raised:\nLoweringException: AssertionError: sizes differ\n"
            "  target: aten.add.Tensor\n  args[0]: TensorBox(...)\n\nSet TORCHDYNAMO_VERBOSE=1",
            "AssertionError: sizes differ",
        ),
    ],
)
def test_complaints_are_the_cause_without_advice(message, subject):
    error = CompilerError(Stage.COMPILE, "torch._inductor.exc.InductorError", message)
    assert TorchCompile.complaint(error).subject == subject


@pytest.mark.parametrize(("ending", "left"), [("exit 0", {"x.so"}), ("kill -9 $$", set())])
def test_a_compiler_that_is_killed_leaves_no_half_of_a_file(tmp_path, ending, left):
    for name, code in {
        "wrapper": torch_compile._WHOLE,
        "cc": f'echo half > "$3"\n{ending}',
    }.items():
        (tmp_path / name).write_text(code if code.startswith("#!") else f"#!/bin/sh\n{code}\n")
        (tmp_path / name).chmod(0o755)
    command = [tmp_path / "wrapper", "x y.cpp", "-o", tmp_path / "x.so"]
    done = subprocess.run(command, env={**os.environ, "CXX": str(tmp_path / "cc")})
    assert (done.returncode == 0) == bool(left)
    assert {path.name for path in tmp_path.iterdir() if path.suffix == ".so"} == left


def test_the_cache_has_a_limit_and_what_is_new_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_compile, "MOST_BYTES", 25)
    monkeypatch.setattr(torch_compile, "_HEADERS", tmp_path / "headers")
    now = time.time()
    for name, age in {"a": 9000, "b": 8000, "c": 7000, "d": 1, "headers/h": 9999}.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(10))
        os.utime(file, (now - age, now - age))
    torch_compile._trim(tmp_path)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"c", "d", "h", "trimmed"}
    (tmp_path / "e").write_bytes(bytes(100))
    torch_compile._trim(tmp_path)  # it has looked a moment ago
    assert (tmp_path / "c").is_file()
