"""nnfuzz replay."""

from dataclasses import replace
from shutil import copytree

from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.records.finding import Origin
from nnfuzz.reduction.figures import ReductionFigures
from tests.command import exit_code as command


def test_replay_reproduces(finding, plugin, capsys):
    assert command("replay", finding, "--plugin", plugin) == 1
    shown = capsys.readouterr().out
    assert "liar O3: mismatch (compare)" in shown and shown.endswith("reproduced\n")


def test_replay_on_an_honest_backend(finding, capsys):
    assert command("replay", finding, "--backend", "onnxruntime") == 0
    assert capsys.readouterr().out.endswith("does not fail on onnxruntime\n")


def test_replay_takes_the_reduced_model_unless_the_original_is_asked_for(
    finding, plugin, tmp_path, capsys
):
    folder = copytree(finding, tmp_path / "f")
    found = read_finding(finding)
    write_finding(
        folder / "reduced", replace(found, origin=Origin(reduction=ReductionFigures(candidates=1)))
    )
    (folder / "reduced" / "model.onnx").write_bytes(b"")
    assert command("replay", folder, "--plugin", plugin) == 2
    told = capsys.readouterr().err
    assert f"the reduced model is taken, {folder / 'reduced'}" in told
    assert "reduced/model.onnx is missing or empty" in told
    assert command("replay", folder, "--original", "--plugin", plugin) == 1
    assert capsys.readouterr().out.endswith("reproduced\n")


def test_replay_of_nothing_is_usage(tmp_path, finding, capsys):
    assert command("replay", tmp_path) == 2
    assert capsys.readouterr().err.endswith("is not a finding: there is no finding.json in it\n")
    (tmp_path / "findings").mkdir()
    assert command("replay", tmp_path) == 2
    assert f"those of a campaign are in {tmp_path / 'findings'}" in capsys.readouterr().err
    assert command("replay", finding, "--backend", "nothing") == 2
    assert "there is no backend 'nothing'" in capsys.readouterr().err
