"""The commands on folders of models: generate, verify, select."""

from __future__ import annotations

import json
import os
import re
import shutil
from xml.etree import ElementTree

import onnx
import pytest
from onnx import parser

import nnfuzz as library
from nnfuzz.corpus.layout import find_tests
from nnfuzz.findings.folder import read_finding
from tests.command import exit_code, nnfuzz, told
from tests.command import told as command
from tests.corpus import consumers

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
    few = ("--operators", "PRelu", "--dtypes", "float32,float64,int32", "--count", 3)
    wanted = (*few, "--backend", "onnxruntime", "--out", tmp_path / "out")
    done = nnfuzz("generate", *QUICK, *wanted)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "direct:PRelu(float64)->float64" in manifest["config"]["refused"]
    assert "onnxruntime" in manifest["versions"]
    assert len(manifest["tests"]) == 3
    models = map(onnx.load, (tmp_path / "out").glob("test_*/model.onnx"))
    assert {v.type.tensor_type.elem_type for model in models for v in model.graph.input} == {1}


pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return consumers.corpus(tmp_path_factory.mktemp("select") / "models")


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_whole_tests_are_copied_and_the_manifest_says_what_they_cover(corpus, tmp_path):
    code, shown = told("select", corpus, "--count", 2, "--out", tmp_path / "few")
    assert code == 0 and "2 of 4 models" in shown and "operators" in shown
    few = find_tests(tmp_path / "few")
    assert len(few) == 2
    for test in few:
        assert contents(test.path) == contents(corpus / test.name)
    manifest = json.loads((tmp_path / "few" / "manifest.json").read_text())
    assert manifest["tests"] and manifest["license"] == "Apache-2.0"
    assert manifest["sources"][0]["seed"] == 3
    kept, whole = manifest["coverage"]["vertex"]
    assert 0 < kept < whole


def test_tests_of_the_same_name_from_two_folders_are_both_kept(corpus, tmp_path):
    import shutil

    shutil.copytree(corpus, tmp_path / "again")
    for file in (tmp_path / "again").glob("*/nnfuzz.json"):
        text = file.read_text().replace('"Relu"', '"Abs"').replace('"Add"', '"Sub"')
        file.write_text(text)
    code, _ = told("select", corpus, tmp_path / "again", "--out", tmp_path / "both")
    assert code == 0
    assert any(p.name.endswith("_2") for p in (tmp_path / "both").iterdir())


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("{corpus}", "--count", "0"), "greater than or equal to 1"),
        (("{empty}",), "there is no test in"),
    ],
)
def test_wrong_usage_leaves_nothing_behind(corpus, tmp_path, arguments, message):
    empty = tmp_path / "empty"
    empty.mkdir()
    given = [a.format(corpus=corpus, empty=empty) for a in arguments]
    code, shown = told("select", *given, "--out", tmp_path / "out")
    assert code == 2 and message in shown, shown
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_is_left_alone(corpus, tmp_path):
    before = contents(corpus)
    code, shown = told("select", corpus, "--out", corpus)
    assert code == 2 and "is not empty; choose another folder" in shown
    assert "models:" not in shown  # nothing is measured in vain
    assert contents(corpus) == before


def test_damaged_and_hostile_corpora_are_refused(corpus, tmp_path):
    import shutil

    for spoil in ("damage", "link"):
        copy = shutil.copytree(corpus, tmp_path / spoil)
        file = next(copy.glob("*/model.onnx"))
        file.unlink()
        if spoil == "damage":
            file.write_bytes(b"\xff")
        else:
            os.symlink(corpus / "manifest.json", file)
        code, shown = told("select", copy, "--out", tmp_path / "out")
        assert code == 2 and ("is damaged" in shown or "not inside of it" in shown), shown
        assert not (tmp_path / "out").exists()


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


def test_a_planted_failure_is_reported_until_it_is_in_the_baseline(folders, tmp_path):
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
    code, told = verify(bad, "--baseline", files["out.json"], *reports)
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
    lost = library.save_case(library.case_from_onnx(parser.parse_model(UNKNOWN)), folder).name
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
    code, shown = command("verify", models, *args, "--findings", out)
    assert code == 1 and "liar O0: 2 passed\nliar O3: 2 failed\n" in shown
    for test in models.iterdir():
        assert f"finding of {test.name}: {out / 'liar-mismatch-'}" in shown
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
    code, shown = command("verify", models, *args)
    assert code == 1 and "gives no finding: nnfuzz's own reference" in shown
    assert not (tmp_path / "found").exists()


def test_verify_of_nothing_is_usage(tmp_path):
    code, told = verify(tmp_path)
    assert code == 2 and "holds no tests" in told
