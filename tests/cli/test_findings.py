"""The commands on a finding: replay, reduce, and what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from shutil import copytree
from types import SimpleNamespace

import pytest
import typer

from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.cli.commands.findings import reduce
from nnfuzz.cli.errors import FINDINGS
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.compilers import examine
from nnfuzz.findings.folder import FindingError, read_finding, write_finding
from nnfuzz.materialize.opsets import once
from nnfuzz.records.finding import Finding, Origin, ReductionFigures
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.producer import Producer
from tests.cli.conftest import OPTIONS
from tests.command import exit_code as command
from tests.reduction.conftest import CONFIG, PLUGIN, has_pattern, planted


def test_a_fault_in_the_declared_inputs_is_no_damage(finding, plugin, tmp_path):
    from nnfuzz.cli.commands.findings import open_finding
    from nnfuzz.cli.consent import Consent
    from nnfuzz.vary.faults.fault import Fault

    found = read_finding(finding)
    inputs = {f"{name}_undeclared": array for name, array in found.case.inputs.items()}
    for fault, damaged in ((None, True), (Fault("kind", "clause", "place"), False)):
        case = replace(found.case, inputs=inputs, fault=fault)
        folder = write_finding(tmp_path / str(damaged), replace(found, case=case))
        if damaged:
            with pytest.raises(Unreadable, match="inputs do not fit the model"):
                open_finding(folder, Consent(folder, [plugin]))
        else:
            assert open_finding(folder, Consent(folder, [plugin])).case.fault == fault


def test_verify_of_a_model_points_to_check(finding, capsys):
    assert command("verify", finding / "model.onnx", "--backend", "onnxruntime") == 2
    assert f"nnfuzz check {finding / 'model.onnx'}" in capsys.readouterr().err


def test_corpus_is_complete(corpus):
    manifest = json.loads((corpus / "manifest.json").read_text())
    assert len(manifest["tests"]) == 3 and manifest["seed"] == 5
    assert {p.name for p in corpus.iterdir()} == {
        *manifest["tests"],
        "manifest.json",
        "README.md",
        "test_models.py",
    }


def test_generate_again_elsewhere_gives_the_same_bytes(corpus, tmp_path, capsys):
    assert command("generate", "--count", 3, "--seed", 5, *OPTIONS, "--out", tmp_path / "m") == 0

    def contents(folder):
        return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    assert contents(tmp_path / "m") == contents(corpus)


def test_exporters_are_mixed_unless_one_is_chosen(tmp_path):
    few = ["--nodes", "3", "--operators", "Add,Mul,Tanh,Sub", "--opset", "18"]
    for name in ("one", "two"):
        assert command("generate", "--count", 6, *few, "--out", tmp_path / name) == 0
    one, two = (sorted((tmp_path / n).rglob("*.*")) for n in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    cases = [json.loads(path.read_text()) for path in one if path.name == "nnfuzz.json"]
    exporters = {once(case["exporter"]) for case in cases}
    assert exporters == {"direct", "torchscript"}
    assert {case["opset"] for case in cases} == {18}


@pytest.mark.parametrize("name", ["replay", "reduce"])
@pytest.mark.parametrize(
    "file, size, message",
    [
        ("model.onnx", 50, "model.onnx is damaged"),
        ("model.onnx", 0, "model.onnx is missing or empty"),
        ("inputs.npz", 100, "inputs.npz is damaged"),
        ("inputs.npz", 0, "inputs.npz is damaged"),
    ],
)
def test_a_damaged_finding_is_told_in_one_line(
    name, file, size, message, finding, tmp_path, capsys
):
    folder = copytree(finding, tmp_path / "f")
    (folder / file).write_bytes((folder / file).read_bytes()[:size])
    assert command(name, folder) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and message in told and told.count("\n") == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finding of an exception, which needs no verdict."""
    registry = BackendRegistry.discover([PLUGIN])
    spec = registry.spec("planted", {"raises": True})
    made = map(Producer(7, CONFIG).produce, range(200))
    case = next(c for c in made if isinstance(c, TestCase) and has_pattern(c))
    with BackendRunner(spec, registry) as runner:
        seen = examine(case, runner, SimpleNamespace(judge=lambda *_: Verdict({})))
    finding = Finding(planted(seen.failures), case, seen.outcomes, spec, as_json(CONFIG))
    return write_finding(tmp_path_factory.mktemp("findings") / "one", finding)


def test_it_reduces_and_says_so(folder, capsys):
    with pytest.raises(typer.Exit) as leaving:
        reduce(folder, plugin=[PLUGIN], workers=1, budget=60)
    assert leaving.value.exit_code == FINDINGS
    printed = capsys.readouterr().out
    assert "10 -> 2 nodes" in printed
    assert "accused: optimiser (FuseMulAdd)" in printed
    assert str(folder / "reduced") in printed
    assert len(read_finding(folder / "reduced").case.graph.nodes) == 2


def test_it_refuses_what_does_not_reproduce_or_is_no_finding(folder, tmp_path):
    with pytest.raises(FindingError, match="does not reproduce"):
        reduce(folder, "planted,where=never", [PLUGIN], workers=1, budget=5)
    with pytest.raises(Unreadable, match="not a finding"):
        reduce(tmp_path, workers=1, budget=5)
    with pytest.raises(RegistryError, match="no backend 'plantd'"):
        reduce(folder, "plantd", [PLUGIN], workers=1, budget=5)


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
