"""Slips of a first hour: each message names what was probably meant."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.campaign.configuration import case_settings
from nnfuzz.cli.commands.check import _inputs, _model_file
from nnfuzz.cli.errors import UsageError
from nnfuzz.findings.folder import FindingError, read_finding
from nnfuzz.records.config import ConfigError
from tests.attacks import samples
from tests.command import nnfuzz


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("onnxruntime/O0", "write onnxruntime and --level O0"),
        ("onnxruntime,openvino", "another backend takes another -b openvino"),
    ],
)
def test_a_backend_in_another_notation(text, message):
    with pytest.raises(OptionError, match=message):
        BackendRegistry.discover().parse(text)


@pytest.mark.parametrize("name", ["ort", "mine"])
def test_no_backend_is_guessed_that_is_far_off(name):
    with pytest.raises(RegistryError) as caught:
        BackendRegistry.discover().parse(name)
    assert "did you mean" not in str(caught.value)
    with pytest.raises(RegistryError, match="did you mean 'onnxruntime'"):
        BackendRegistry.discover().parse("onnxrutime")


def test_a_dtype_without_its_size():
    with pytest.raises(ConfigError, match="did you mean float32"):
        case_settings({"dtypes": ("float",)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--operators", "LeakyRelu", "Add"), "joined by commas"),
        (("m.onnx",), "nnfuzz check; --set seed-models"),
    ],
)
def test_an_argument_too_many(options, message):
    done = nnfuzz("fuzz", *options)
    assert done.returncode == 2 and message in done.stderr


def test_a_model_in_another_form(tmp_path):
    with pytest.raises(UsageError, match="is no ONNX model: export it"):
        _model_file(tmp_path / "net.pt")


def test_a_folder_of_models(tmp_path):
    with pytest.raises(UsageError, match=r"there is no \.onnx file"):
        _model_file(tmp_path)
    (tmp_path / "b.onnx").touch()
    (tmp_path / "a.onnx").touch()
    with pytest.raises(UsageError, match=r"name one of a\.onnx, b\.onnx in it"):
        _model_file(tmp_path)


def test_inputs_without_names(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(UsageError, match=r"write it by numpy\.savez"):
        _inputs(tmp_path / "x.npy", tmp_path / "m.onnx")


def test_a_folder_of_findings_names_them(tmp_path):
    for index in range(7):
        (tmp_path / f"one-{index}").mkdir()
        (tmp_path / f"one-{index}" / "finding.json").touch()
    with pytest.raises(FindingError, match=r"there are one-0, .*one-4 and 2 more$"):
        read_finding(tmp_path)


@pytest.mark.parametrize(
    "option, message",
    [
        (("--save", "file/x"), "file/x cannot be written: Not a directory"),
        (("--save", "file"), "'--save': dir 'file' is a file"),
        (("--json", "."), "'--json': file '.' is a directory"),
    ],
)
def test_a_check_that_cannot_be_written_does_not_begin(option, message, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "m.onnx").write_bytes(samples.case().model)
    done = nnfuzz("check", "m.onnx", *option, cwd=tmp_path)
    assert done.returncode == 2 and not done.stdout and message in done.stderr


def test_a_backend_without_releases_is_not_bisected(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from nnfuzz.backend.contract import Backend\n"
        "class Mine(Backend):\n"
        "    name, levels = 'mine', ('O0',)\n"
        "    def versions(self): return {}\n"
        "    def load(self, model): ...\n"
        "    def build(self, module, level): ...\n"
    )
    folder = samples.finding_folder(tmp_path / "f", plugins=(str(plugin),), backend="mine")
    done = nnfuzz("bisect", folder, "--plugin", plugin)
    assert done.returncode == 2
    assert "mine names no package (Backend.distribution), so it has no releases" in done.stderr
