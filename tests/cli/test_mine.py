from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnfuzz.cli.main import application
from nnfuzz.mine.mining import Mined, Miner
from tests.mine.models import attention, save

RUNNER = CliRunner()


@pytest.mark.slow
def test_patterns_are_written_once(tmp_path: Path):
    save(attention(), tmp_path / "zoo" / "attention.onnx")
    out = tmp_path / "patterns"
    first = RUNNER.invoke(application(), ["mine", str(tmp_path / "zoo"), "--out", str(out)])
    assert first.exit_code == 0, first.output
    assert "1 patterns of 1 models" in first.output
    (file,) = out.iterdir()
    assert json.loads(file.read_text())["origins"][0]["source"] == "zoo"
    again = RUNNER.invoke(application(), ["mine", str(tmp_path / "zoo"), "--out", str(out)])
    assert again.exit_code == 0
    assert "no new pattern in 1 models, 1 structures were there" in again.output


def test_bad_sources_are_one_line(tmp_path: Path):
    out = ["--out", str(tmp_path / "out")]
    missing = RUNNER.invoke(application(), ["mine", "no/such/folder", *out])
    assert missing.exit_code != 0
    assert "neither a file, nor a folder, nor an installed package" in str(missing.exception)
    (tmp_path / "empty").mkdir()
    empty = RUNNER.invoke(application(), ["mine", str(tmp_path / "empty"), *out])
    assert empty.exit_code != 0
    assert "no ONNX model" in str(empty.exception)


def test_where_no_file_can_be_used_it_is_an_error(tmp_path: Path, monkeypatch):
    save(attention(), tmp_path / "attention.onnx")
    monkeypatch.setattr(Miner, "mine", lambda *_: Mined((), 0, 0, problems=1))
    done = RUNNER.invoke(
        application(), ["mine", str(tmp_path / "attention.onnx"), "--out", str(tmp_path / "out")]
    )
    assert str(done.exception) == "none of the files can be used"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_motif_files_are_planted_by_generate(tmp_path: Path):
    save(attention(), tmp_path / "zoo" / "attention.onnx")
    out, models = tmp_path / "patterns", tmp_path / "models"
    RUNNER.invoke(application(), ["mine", str(tmp_path / "zoo"), "--out", str(out)])
    asked = ["generate", "--out", str(models), "--count", "2", "--motif-files", str(out)]
    made = RUNNER.invoke(application(), [*asked, "--nodes", "4", "--processes", "1"])
    assert made.exit_code == 0, made.output
    refused = RUNNER.invoke(application(), [*asked[:-1], str(tmp_path / "no")])
    assert refused.exit_code != 0
