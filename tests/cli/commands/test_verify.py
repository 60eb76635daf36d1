"""nnfuzz verify."""

from shutil import copytree
from xml.etree import ElementTree

import pytest

from nnfuzz.findings.folder import read_finding
from tests.cli.conftest import command
from tests.corpus.consumers import spoiled


def test_verify_passes_and_fails(corpus, plugin, tmp_path, capsys):
    assert command("verify", corpus, "--backend", "onnxruntime") == 0
    assert "onnxruntime O3: 3 passed" in capsys.readouterr().out
    junit = tmp_path / "deep" / "results.xml"
    args = ["--backend", "liar", "--plugin", plugin, "--level", "O0,O3", "--junit", junit]
    assert command("verify", corpus, *args) == 1
    assert "liar O0: 3 passed\nliar O3: 3 failed\n" in capsys.readouterr().out
    (suite,) = ElementTree.fromstring(junit.read_bytes())
    assert suite.attrib["failures"] == "3" and suite.attrib["tests"] == "6"


@pytest.mark.slow
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
