"""Options, errors and exit codes, as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.records.config import CampaignConfig
from nnfuzz.store.store import FILE, Store
from tests.command import nnfuzz

HOSTILE = Path(__file__).parent.parent / "backend" / "hostile.py"


def test_the_parent_of_a_campaign_works_without_torch():
    rooms = (
        "campaign.session, nnfuzz.campaign.configuration, nnfuzz.cli.campaigns, nnfuzz.cli.reports"
    )
    code = f"import sys; sys.modules['torch'] = None; import nnfuzz.{rooms}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--operators", "Cnv"), "unknown operator 'Cnv'; did you mean Conv"),
        (("--exporter", "onnx"), "unknown exporter 'onnx'; known: torchscript"),
        (("--set", "opset=99"), "onnxruntime takes opsets up to 26, not 99"),
        pytest.param(
            ("--exporter", "torchscript", "--set", "opset=25"),
            "exporter torchscript reaches the opsets",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_no_model_can_be_made_of_leaves_no_campaign_behind(tmp_path, arguments, message):
    out = tmp_path / "out"
    done = nnfuzz("fuzz", "-b", "onnxruntime", "--out", out, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "Add --backend NAME; installed: "),
        (("-b", "tmv"), "did you mean 'tvm'"),
        (("-b", "onnxruntime,provdier=cpu"), "has no option 'provdier'"),
        (("-b", "onnxruntime", "--set", "level=O9"), "has no level 'O9'; did you mean 'O3'"),
        (("-b", "onnxruntime", "--time", "soon"), "write 90s, 10m"),
        (("-b", "onnxruntime", "--time", ""), "'' is not a duration"),
        (("-b", "onnxruntime", "--set", "probe=-1"), "--set probe: '-1' is not yes or no"),
        (
            ("-b", "onnxruntime", "--known", "/no/such/file"),
            "--known /no/such/file cannot be read: No such file or directory: name a finding",
        ),
        (("-b", "onnxruntime", "--nodes", "100000"), "Invalid value for '--nodes'"),
        (
            ("-b", "onnxruntime", "--set", "engine=mutant"),
            "no engine 'mutant'; did you mean 'mutate'",
        ),
        (
            ("-b", "onnxruntime", "--set", "exclude-dtypes=f32"),
            "there is no dtype 'f32'; there are",
        ),
        (
            ("-b", "onnxruntime", "--set", "dtypes=bool", "--set", "exclude-dtypes=bool"),
            "no dtype is left",
        ),
        (("-b", "onnxruntime", "--plugin", "/no/such/file.py"), "no such file"),
        (("-b", "onnxruntime", "--out", __file__), "test_command_line.py is not a folder"),
        (("-b", "onnxruntime", "--out", "/proc/none"), "/proc/none cannot be written: No such"),
        (("--resume",), "--resume needs --out"),
        (("--resume", "--out", "/no/such/folder"), "holds no campaign"),
        (("-b", "onnxruntime", "--tests", "many"), "Invalid value"),
    ],
)
def test_wrong_usage_is_told_with_its_fix(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = nnfuzz("fuzz", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_campaign_is_neither_overwritten_nor_resumed_differently(tmp_path):

    spec = BackendRegistry.discover([HOSTILE]).spec("hostile")
    config = CampaignConfig((spec,), seed=5, tests_limit=3)
    Store.create(tmp_path, as_json(config)).close()
    before = (tmp_path / FILE).read_bytes()
    again = nnfuzz("fuzz", "-b", "onnxruntime", "--out", tmp_path, "--tests", 1)
    assert again.returncode == 2 and "add --resume" in again.stderr
    other = nnfuzz("fuzz", "--out", tmp_path, "--resume", "--seed", 6, "--plugin", HOSTILE)
    assert other.returncode == 2 and "seed 6 contradicts" in other.stderr
    assert (tmp_path / FILE).read_bytes() == before


def test_fuzzing_onnx_runtime_end_to_end(tmp_path):
    out = tmp_path / "out"
    module = [sys.executable, "-m", "nnfuzz", "fuzz", "-b", "onnxruntime", "--tests", "5", "--seed"]
    options = ["7", "--exporter", "direct", "--nodes", "3", "--set", "probe=0", "--out", str(out)]
    done = subprocess.run([*module, *options], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "5 tests" in done.stdout or "4 tests" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert summary["seed"] == 7 and summary["faults"] == 0
    assert summary["config"]["case"]["nodes"] == 3
    wanted = {"generate", "export", "inputs", "execute", "compare"}
    assert wanted <= summary["phase_ms"].keys()
    finished = nnfuzz("fuzz", "--out", out, "--resume")
    assert finished.returncode == 2 and "higher --tests" in finished.stderr
