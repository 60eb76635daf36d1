"""Folders of findings."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.base.writing import as_json
from nnfuzz.findings.folder import read_finding, write_finding

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
