"""`nnfuzz verify` in a CI: reports, what is known, shards, exit codes."""

from __future__ import annotations

import json
import re
import shutil
from xml.etree import ElementTree

import pytest
from onnx import parser

import nnfuzz
from nnfuzz.findings.folder import read_finding
from tests.command import exit_code
from tests.command import told as command
from tests.corpus import consumers

pytest.importorskip("onnxruntime")

UNKNOWN = """<ir_version: 8, opset_import: ["" : 17]> m (float[2, 3] x) => (float[2, 3] y) {
    a = Exp(x)  s = SequenceConstruct(a)  i = Constant<value = int64 {0}>()  y = SequenceAt(s, i)
}"""
"""A model of which nothing is compared."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A corpus, the same with a planted failure, and the name of that."""
    good = consumers.corpus(tmp_path_factory.mktemp("verify") / "models")
    return good, good.parent / "bad", consumers.spoiled(good, good.parent / "bad")


def verify(folder, *arguments):
    return command("verify", folder, "--backend", "onnxruntime", "--level", "O0", *arguments)


def foreign(folder):
    """As others read it: by tolerances, which the planted failure is for."""
    for file in folder.glob("*/nnfuzz.json"):
        file.unlink(missing_ok=True)
    return folder


def test_good_models_pass_by_envelope_and_by_tolerance(folders, tmp_path):
    good, _, _ = folders
    for folder in (good, foreign(shutil.copytree(good, tmp_path / "copy"))):
        code, told = verify(folder)
        assert code == 0 and "onnxruntime O0: 4 passed" in told


def test_a_planted_failure_is_reported_until_it_is_known(folders, tmp_path):
    _, bad, name = folders
    bad = foreign(bad)
    files = {k: tmp_path / "deep" / k for k in ("out.xml", "out.md", "out.json")}
    reports = ["--junit", files["out.xml"], "--summary-md", files["out.md"]]
    code, told = verify(bad, *reports, "--results", files["out.json"])
    assert code == 1 and f"FAILED {name} onnxruntime O0" in told
    (failure,) = ElementTree.parse(files["out.xml"]).iter("failure")
    assert "test_data_set_1" in failure.attrib["message"]
    assert f"`{name}`" in files["out.md"].read_text()
    assert [r["kind"] for r in json.loads(files["out.json"].read_text())["results"]].count(
        "mismatch"
    ) == 1
    known = tmp_path / "known.txt"
    known.write_text(f"{name} # issue 7\n")
    for option, file in (("--known", known), ("--baseline", files["out.json"])):
        code, told = verify(bad, option, file, *reports)
        assert code == 0 and "1 known" in told and "3 passed" in told


def test_shards_are_the_whole_and_share_nothing(folders, tmp_path):
    good, _, _ = folders
    seen = []
    for part in ("1/2", "2/2"):
        file = tmp_path / "part.json"
        assert verify(good, "--shard", part, "--results", file)[0] == 0
        seen += [row["test"] for row in json.loads(file.read_text())["results"]]
    assert len(seen) == len(set(seen)) == consumers.COUNT


def test_what_is_not_begun_in_time_is_skipped(folders):
    good, _, _ = folders
    code, told = verify(good, "--time", "0.000000001s")
    assert code == 0 and re.search(r"skipped 4x: not begun: the time was over", told)


def test_what_is_not_compared_is_counted_and_never_passes(folders, tmp_path):
    folder = shutil.copytree(folders[0], tmp_path / "models")
    lost = nnfuzz.save_case(nnfuzz.case_from_onnx(parser.parse_model(UNKNOWN)), folder).name
    files = [tmp_path / "out.xml", tmp_path / "out.md"]
    code, told = verify(folder, "--junit", files[0], "--summary-md", files[1])
    lines = [line for line in told.splitlines() if not line.startswith("tests: ")]  # progress
    assert code == 0 and lines[-1].startswith("not compared: 1 of 5 results")
    (suite,) = ElementTree.parse(files[0]).getroot()
    assert suite.attrib["skipped"] == "1" and suite.attrib["failures"] == "0"
    (case,) = [case for case in suite if len(case)]
    assert case.attrib["name"] == lost and case[0].tag == "skipped"
    assert case[0].attrib["message"].startswith("not compared: SequenceConstruct, SequenceAt have")
    page = files[1].read_text()
    assert "1 not compared</summary>" in page and "1 times: SequenceConstruct, SequenceAt" in page


@pytest.mark.slow
def test_a_failure_of_verify_becomes_a_finding_that_replays_and_reduces(corpus, plugin, tmp_path):
    models, out = tmp_path / "models", tmp_path / "found"
    for test in sorted(corpus.glob("*/model.onnx"))[:2]:
        shutil.copytree(test.parent, models / test.parent.name)
    foreign = sorted(models.iterdir())[1]
    (foreign / "nnfuzz.json").unlink()  # as others write tests
    args = ["--backend", "liar", "--plugin", plugin, "--level", "O0,O3"]
    code, told = command("verify", models, *args, "--findings", out)
    assert code == 1 and "liar O0: 2 passed\nliar O3: 2 failed\n" in told
    for test in models.iterdir():
        assert f"finding of {test.name}: {out / 'liar-mismatch-'}" in told
    folder = next(out.iterdir())
    assert read_finding(folder).failure.levels == ("O3",)
    assert "reproduced" in command("replay", folder, "--plugin", plugin)[1]
    assert exit_code("reduce", folder, "--plugin", plugin, "--budget", 30, "--workers", 1) == 1
    assert read_finding(folder / "reduced").failure.kind == "mismatch"


def test_verify_says_why_a_wrong_expectation_gives_no_finding(corpus, tmp_path):
    models = tmp_path / "models"
    consumers.spoiled(corpus, models)
    for file in models.glob("*/nnfuzz.json"):
        file.unlink()
    args = ["--backend", "onnxruntime", "--findings", tmp_path / "found"]
    code, told = command("verify", models, *args)
    assert code == 1 and "gives no finding: nnfuzz's own reference" in told
    assert not (tmp_path / "found").exists()


def test_verify_of_nothing_is_usage(tmp_path):
    code, told = verify(tmp_path)
    assert code == 2 and "holds no tests" in told
