"""The corpus of a release: few models, a table of what they cover, the same bytes again."""

from __future__ import annotations

import tarfile

import pytest

from nnfuzz.corpus.layout import find_tests
from scripts.make import models


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    arguments = ["7", "--count", "3", "--max-bytes", "1M", "--candidates", "5", "--out", str(out)]
    assert models.main(arguments) == 0
    return out / "nnfuzz-models-7.tar.gz"


@pytest.mark.slow
def test_the_archive_holds_whole_tests_and_the_table(archive, tmp_path):
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    folder = tmp_path / "nnfuzz-models-7"
    tests = find_tests(folder)
    assert 1 <= len(tests) <= 3 and all(test.case() for test in tests)
    assert sum(p.stat().st_size for t in tests for p in t.path.rglob("*") if p.is_file()) < 10**6
    table = (folder / "COVERAGE.md").read_text()
    assert f"{len(tests)} models" in table and "| operators |" in table
    assert {"README.md", "manifest.json"} <= {p.name for p in folder.iterdir()}


@pytest.mark.slow
def test_packing_again_gives_the_same_bytes(archive, tmp_path):
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    folder = tmp_path / "nnfuzz-models-7"
    again = models.pack(folder, tmp_path / "again.tar.gz")
    assert again.read_bytes() == archive.read_bytes()
