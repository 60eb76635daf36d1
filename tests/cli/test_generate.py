"""`nnfuzz generate` as teams meet it: bad input is told with its fix and destroys nothing."""

from __future__ import annotations

import json

import pytest

from tests.command import nnfuzz

QUICK = ("--exporter", "direct", "--nodes", 2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--operators", "Cnv"), "unknown operator 'Cnv'; did you mean Conv"),
        (("--operators", "Add", "--exclude", "Add"), "no operator is left"),
        (("--dtypes", "float31"), "there is no dtype 'float31'"),
        (("--engine", "direkt"), "there is no engine 'direkt'; did you mean 'direct'?"),
        (("--opset", "99"), "reaches the opsets"),
        (("--nodes", 100000), "Invalid value for '--nodes'"),
        (("--max-bytes", "lots"), "'lots' is not a size"),
        (("--max-bytes", "10"), "too large"),
        (("--backend", "onxruntime"), "did you mean 'onnxruntime'"),
    ],
)
def test_impossible_wishes_leave_nothing_behind(tmp_path, monkeypatch, arguments, message):
    monkeypatch.setattr("nnfuzz.corpus.generate.MAX_FAILURES", 3)
    done = nnfuzz("generate", *QUICK, "--out", tmp_path / "out", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["file", "folder", "manifest"])
def test_what_is_no_corpus_is_left_alone(tmp_path, place):
    out = tmp_path / "out"
    if place == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / ("manifest.json" if place == "manifest" else "thesis.tex")).write_text("{mine")
    before = {p: p.read_text() for p in tmp_path.rglob("*") if p.is_file()}
    done = nnfuzz("generate", *QUICK, "--count", 1, "--out", out)
    assert done.returncode == 2 and done.stderr.startswith("error: "), done.stderr
    assert {p: p.read_text() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_folder_that_cannot_be_written_is_named():
    done = nnfuzz("generate", *QUICK, "--count", 1, "--out", "/proc/none")
    assert done.returncode == 2 and "/proc/none cannot be written" in done.stderr


@pytest.mark.slow
def test_for_a_backend_nothing_is_generated_that_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    few = ("--singles", "--operators", "PRelu", "--dtypes", "float32,float64,int32")
    wanted = (*few, "--backend", "onnxruntime", "--out", tmp_path / "out")
    done = nnfuzz("generate", *QUICK, *wanted)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "direct:PRelu(float64)->float64" in manifest["config"]["refused"]
    assert "onnxruntime" in manifest["versions"]
    assert manifest["tests"] and all("float32" in name for name in manifest["tests"])
