"""`nnfuzz select`: from corpora to a small one."""

from __future__ import annotations

import json
import os

import pytest

from nnfuzz.corpus.layout import find_tests
from tests.command import told as nnfuzz
from tests.corpus import consumers

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return consumers.corpus(tmp_path_factory.mktemp("select") / "models")


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_whole_tests_are_copied_and_the_manifest_says_what_they_cover(corpus, tmp_path):
    code, told = nnfuzz("select", corpus, "--count", 2, "--out", tmp_path / "few")
    assert code == 0 and "2 of 4 models" in told and "operators" in told
    few = find_tests(tmp_path / "few")
    assert len(few) == 2
    for test in few:
        assert contents(test.path) == contents(corpus / test.name)
    manifest = json.loads((tmp_path / "few" / "manifest.json").read_text())
    assert manifest["tests"] and manifest["license"] == "Apache-2.0"
    assert manifest["sources"][0]["seed"] == 3
    kept, whole = manifest["coverage"]["vertex"]
    assert 0 < kept < whole


def test_passes_and_the_time_of_a_compiler_count(corpus, tmp_path):
    options = ("--backend", "onnxruntime", "--max-time", "1h")
    code, told = nnfuzz("select", corpus, *options, "--out", tmp_path / "few")
    assert code == 0 and "of the compilers" in told and "passes of a compiler" in told


def test_tests_of_the_same_name_from_two_folders_are_both_kept(corpus, tmp_path):
    import shutil

    shutil.copytree(corpus, tmp_path / "again")
    for file in (tmp_path / "again").glob("*/nnfuzz.json"):
        text = file.read_text().replace('"Relu"', '"Abs"').replace('"Add"', '"Sub"')
        file.write_text(text)
    code, _ = nnfuzz("select", corpus, tmp_path / "again", "--out", tmp_path / "both")
    assert code == 0
    assert any(p.name.endswith("_2") for p in (tmp_path / "both").iterdir())


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("{corpus}", "--max-time", "2s"), "add --backend NAME"),
        (("{corpus}", "--max-bytes", "1"), "not a single test fits"),
        (("{empty}",), "there is no test in"),
    ],
)
def test_wrong_usage_leaves_nothing_behind(corpus, tmp_path, arguments, message):
    empty = tmp_path / "empty"
    empty.mkdir()
    given = [a.format(corpus=corpus, empty=empty) for a in arguments]
    code, told = nnfuzz("select", *given, "--out", tmp_path / "out")
    assert code == 2 and message in told, told
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_is_left_alone(corpus, tmp_path):
    before = contents(corpus)
    code, told = nnfuzz("select", corpus, "--out", corpus)
    assert code == 2 and "is not empty; choose another folder" in told
    assert "models:" not in told  # nothing is measured in vain
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
        code, told = nnfuzz("select", copy, "--out", tmp_path / "out")
        assert code == 2 and ("is damaged" in told or "not inside of it" in told), told
        assert not (tmp_path / "out").exists()
