"""Folders of findings."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.base.files import PARTIAL, atomic_folder, npz_bytes, remove_partial
from nnfuzz.base.untrusted import read_npz
from nnfuzz.base.writing import as_json
from nnfuzz.findings.folder import (
    MAX_TEXT,
    FindingError,
    read_finding,
    write_finding,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.signature import failures

FILES = {
    "model.onnx", "inputs.npz", "expected.npz", "actual.npz", "weights.npz", "finding.json",
    "report.md", "repro.py",
}  # fmt: skip


def test_everything_comes_back(finding_of, tmp_path):
    finding = finding_of("planted,bug=value")
    folder = write_finding(tmp_path / "deep" / finding.failure.folder_name, finding)
    assert {path.name for path in folder.iterdir()} == FILES | {"planted.py"}
    assert read_finding(folder).backend.plugins == ()  # nobody said that it may run
    back = read_finding(folder, lambda plugin: plugin)
    assert back.failure == finding.failure
    assert back.backend == replace(finding.backend, plugins=(str(folder / "planted.py"),))
    assert back.verdict == finding.verdict
    assert (back.config, back.origin) == (
        json.loads(json.dumps(finding.config)),
        finding.origin,
    )
    assert back.case.graph == finding.case.graph and back.case.model == finding.case.model
    for group in ("inputs", "weights", "expected"):
        for name, array in getattr(finding.case, group).items():
            np.testing.assert_array_equal(getattr(back.case, group)[name], array)
    for one, other in zip(back.outcomes, finding.outcomes, strict=True):
        assert as_json(one) == as_json(other)
        np.testing.assert_array_equal(one.outputs["y"], other.outputs["y"])
    assert list(folder.parent.iterdir()) == [folder]


def test_equal_findings_give_equal_bytes(finding_of, tmp_path):
    finding = finding_of("planted,bug=value")
    one, other = (write_finding(tmp_path / name, finding) for name in "ab")
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_an_existing_folder_is_left_alone(finding_of, tmp_path):
    finding = finding_of("planted,bug=value")
    folder = write_finding(tmp_path / "f", finding)
    before = (folder / "finding.json").stat().st_mtime_ns
    with pytest.raises(FileExistsError):
        write_finding(folder, finding)
    assert (folder / "finding.json").stat().st_mtime_ns == before
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_hostile_text_stays_inside_of_its_place(finding_of, tmp_path):
    finding = finding_of("planted,bug=raise")
    nasty = '"""\n```\n| a | \x1b[31mred\x07 </script> \\'
    outcomes = tuple(
        replace(o, message=nasty, captured=nasty * 9000) if not o.ok else o
        for o in finding.outcomes
    )
    (failure,) = failures(outcomes, None, finding.case.graph)
    finding = replace(finding, outcomes=outcomes, failure=failure)
    folder = write_finding(tmp_path / "f", finding, "def run(model, inputs, level): pass")
    report = (folder / "report.md").read_text()
    assert "\x1b" not in report and "\x07" not in report and len(report) < 20_000
    table = [line for line in report.splitlines() if line.startswith("| planted |")]
    assert all(line.replace("\\|", "").count("|") == 6 for line in table)
    assert report.count("````") == 2  # a longer fence than the one in the text
    compile((folder / "repro.py").read_text(), "repro.py", "exec")
    assert len(read_finding(folder).outcomes[1].captured) < MAX_TEXT + 100


def test_a_kill_leaves_no_half_folder(tmp_path):
    killed = (
        "import os, sys; from pathlib import Path\n"
        "from nnfuzz.base.files import atomic_folder\n"
        f"with atomic_folder(Path({str(tmp_path / 'f')!r})) as made:\n"
        "    (made / 'model.onnx').write_bytes(b'half'); os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
    assert [p.name.startswith(PARTIAL) for p in tmp_path.iterdir()] == [True]
    remove_partial(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), atomic_folder(tmp_path / "f") as made:
        (made / "x").write_text("x")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_exporter_failure_has_no_model(finding_of, tmp_path):
    from nnfuzz.triage.signature import export_failure

    finding = finding_of("planted,bug=value")
    case = TestCase(Numbered(7, 4), finding.case.graph, b"", {}, {}, {}, "torchscript", 20)
    failure = export_failure("torchscript", "SomeError", "no cosh")
    finding = replace(finding, failure=failure, case=case, outcomes=(), verdict=None, backend=None)
    folder = write_finding(tmp_path / "f", finding)
    assert not (folder / "model.onnx").exists() and not (folder / "repro.py").exists()
    assert "The exporter failed" in (folder / "report.md").read_text()
    assert read_finding(folder).failure == failure


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1}'])
def test_damaged_findings_are_refused(text, tmp_path):
    (tmp_path / "finding.json").write_text(text)
    with pytest.raises(FindingError):
        read_finding(tmp_path)


def test_npz_of_any_name(tmp_path):
    arrays = {"file": np.arange(3), "/a/b": np.float16(2).reshape(()), "é": np.zeros((0, 2), bool)}
    arrays |= {f"a@{d.value}": np.arange(2).astype(d.numpy) for d in DType}
    (tmp_path / "a.npz").write_bytes(npz_bytes(arrays))
    back = read_npz(tmp_path / "a.npz")
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()
    with pytest.raises(ValueError):
        npz_bytes({"x": np.array([object()])})
