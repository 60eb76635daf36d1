"""replay, generate and verify, from the command line to the exit code."""

import json
from dataclasses import replace
from shutil import copytree

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.findings.folder import read_finding, write_finding
from tests.cli.conftest import OPTIONS
from tests.command import exit_code as command


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
    assert {case["exporter"] for case in cases} == {"direct", "torchscript"}
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
