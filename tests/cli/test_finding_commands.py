"""replay, generate and verify, from the command line to the exit code."""

import json
from dataclasses import replace
from shutil import copytree
from xml.etree import ElementTree

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.cli.main import application, run
from nnfuzz.experiment.blocking import examine
from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.records.finding import Finding, Origin
from nnfuzz.reduction.figures import ReductionFigures
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.identity import Numbered
from tests.corpus.consumers import spoiled

CONFIG = CaseConfig(nodes=3, exporter="direct", operators=("Add", "Mul", "Tanh", "Sub"))
OPTIONS = ["--nodes", "3", "--exporter", "direct", "--operators", "Add,Mul,Tanh,Sub"]
OPTIONS += ["--dtypes", "float32"]
LIAR = '''
import numpy as np

from nnfuzz.backends.onnxruntime import OnnxRuntime


class Liar(OnnxRuntime):
    """ONNX Runtime with a wrong answer at O3."""

    name = "liar"

    def build(self, module, level):
        right = super().build(module, level)
        if level != "O3":
            return right
        one = lambda v: np.asarray(v + v.dtype.type(1))
        return lambda inputs: {k: one(v) for k, v in right(inputs).items()}
'''


def command(*args):
    """Exit code of `nnfuzz ARGS`."""
    with pytest.raises(SystemExit) as end:
        run(lambda: application()([str(a) for a in args]))
    return end.value.code


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    file = tmp_path_factory.mktemp("plugin") / "liar.py"
    file.write_text(LIAR)
    return file


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus") / "models"
    assert command("generate", "--count", 3, "--seed", 5, *OPTIONS, "--out", folder) == 0
    return folder


@pytest.fixture(scope="module")
def finding(tmp_path_factory, plugin):
    registry = BackendRegistry.discover([plugin])
    spec = registry.spec("liar")
    config = as_json(CONFIG)
    with ProducerClient(5, config) as producer, BackendRunner(spec, registry) as runner:
        case = producer.produce(Numbered(5, 0))
        seen = examine(case, runner, producer.judge)
    (failure,) = seen.failures
    found = Finding(failure, case, seen.outcomes, spec, config, seen.verdict)
    return write_finding(tmp_path_factory.mktemp("findings") / "f", found)


def test_replay_reproduces_and_regenerates(finding, plugin, capsys):
    assert command("replay", finding, "--regenerate", "--plugin", plugin) == 1
    shown = capsys.readouterr().out
    assert "byte for byte the same test case" in shown
    assert "liar O3: mismatch (compare)" in shown and shown.endswith("reproduced\n")


def test_replay_on_an_honest_backend(finding, capsys):
    assert command("replay", finding, "--backend", "onnxruntime") == 0
    assert capsys.readouterr().out.endswith("does not fail on onnxruntime\n")


def test_a_reduced_finding_is_not_regenerated(finding, plugin, tmp_path, capsys):
    reduced = replace(
        read_finding(finding), origin=Origin(reduction=ReductionFigures(candidates=1))
    )
    folder = write_finding(tmp_path / "reduced", reduced)
    assert command("replay", folder, "--regenerate", "--plugin", plugin) == 2
    assert "has no seed" in capsys.readouterr().err


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


def test_a_fault_in_the_declared_inputs_is_no_damage(finding, plugin, tmp_path):
    from nnfuzz.cli.consent import Consent
    from nnfuzz.cli.findings import open_finding
    from nnfuzz.invalid.fault import Fault

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


def test_replay_of_nothing_is_usage(tmp_path, finding, capsys):
    assert command("replay", tmp_path) == 2
    assert capsys.readouterr().err.endswith("is not a finding: there is no finding.json in it\n")
    (tmp_path / "findings").mkdir()
    assert command("replay", tmp_path) == 2
    assert f"those of a campaign are in {tmp_path / 'findings'}" in capsys.readouterr().err
    assert command("replay", finding, "--backend", "nothing") == 2
    assert "there is no backend 'nothing'" in capsys.readouterr().err


def test_corpus_is_complete(corpus):
    manifest = json.loads((corpus / "manifest.json").read_text())
    assert len(manifest["tests"]) == 3 and manifest["seed"] == 5
    assert {p.name for p in corpus.iterdir()} == {
        *manifest["tests"],
        "manifest.json",
        "README.md",
        "polygraphy_data.py",
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


def test_generate_refuses_other_settings_and_operators(corpus, tmp_path, capsys):
    assert command("generate", "--count", 3, "--seed", 6, *OPTIONS, "--out", corpus) == 2
    assert "another seed (5 there, 6 wanted)" in capsys.readouterr().err
    assert command("generate", "--operators", "Tahn", "--out", tmp_path / "x") == 2
    assert "did you mean Tan" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    assert command("generate", "--nodes", 100000, "--out", tmp_path / "x") == 2
    assert "Invalid value for '--nodes'" in capsys.readouterr().err
    assert command("generate", "--dtypes", "float3", "--out", tmp_path / "x") == 2
    assert "there is no dtype 'float3'; there are float32, float64" in capsys.readouterr().err


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


def test_verify_passes_and_fails(corpus, plugin, tmp_path, capsys):
    assert command("verify", corpus, "--backend", "onnxruntime") == 0
    assert "onnxruntime O3: 3 passed" in capsys.readouterr().out
    junit = tmp_path / "deep" / "results.xml"
    args = ["--backend", "liar", "--plugin", plugin, "--level", "O0,O3", "--junit", junit]
    assert command("verify", corpus, *args) == 1
    assert "liar O0: 3 passed\nliar O3: 3 failed\n" in capsys.readouterr().out
    (suite,) = ElementTree.fromstring(junit.read_bytes())
    assert suite.attrib["failures"] == "3" and suite.attrib["tests"] == "6"


def test_a_failure_of_verify_becomes_a_finding_that_replays_and_reduces(
    corpus, plugin, tmp_path, capsys
):
    models, out = tmp_path / "models", tmp_path / "found"
    for test in sorted(corpus.glob("*/model.onnx"))[:2]:
        copytree(test.parent, models / test.parent.name)
    foreign = sorted(models.iterdir())[1]
    (foreign / "nnfuzz.json").unlink()  # as others write tests
    args = ["--backend", "liar", "--plugin", plugin, "--level", "O0,O3"]
    assert command("verify", models, *args, "--findings", out) == 1
    told = capsys.readouterr().out
    for test in models.iterdir():
        assert f"finding of {test.name}: {out / 'liar-mismatch-'}" in told
    folder = next(out.iterdir())
    assert read_finding(folder).failure.levels == ("O3",)
    assert command("replay", folder, "--plugin", plugin) == 1
    assert "reproduced" in capsys.readouterr().out
    assert command("reduce", folder, "--plugin", plugin, "--budget", 30, "--workers", 1) == 1
    assert read_finding(folder / "reduced").failure.kind == "mismatch"


def test_verify_says_why_a_wrong_expectation_gives_no_finding(corpus, tmp_path, capsys):
    models = tmp_path / "models"
    spoiled(corpus, models)
    for file in models.glob("*/nnfuzz.json"):
        file.unlink()
    args = ["--backend", "onnxruntime", "--findings", tmp_path / "found"]
    assert command("verify", models, *args) == 1
    assert "gives no finding: nnfuzz's own reference" in capsys.readouterr().err
    assert not (tmp_path / "found").exists()


def test_verify_of_nothing_is_usage(tmp_path, capsys):
    assert command("verify", tmp_path, "--backend", "onnxruntime") == 2
    assert "holds no tests" in capsys.readouterr().err
