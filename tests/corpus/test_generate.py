"""Filling a corpus: any interruption, any folder."""

import json
from dataclasses import replace

import pytest

from nnfuzz.corpus.entry import Entry
from nnfuzz.corpus.generate import MAX_FAILURES, CorpusPlan, fill
from nnfuzz.corpus.layout import CorpusError
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Numbered

PLAN = CorpusPlan(4, 7, {"nodes": 2}, {"nnfuzz": "1"})


@pytest.fixture
def produce(case):
    """Every third index gives no test case; `asked` remembers the calls."""

    def make(tests):
        for test in tests:
            make.asked.append(test.index)
            if test.index % 3 == 2:
                yield NotProduced(test, "inputs", "no input")
            else:
                yield Entry(replace(case, id=test))

    make.asked = []
    return make


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_fills_and_says_what_was_skipped(produce, tmp_path):
    written = list(fill(tmp_path / "c", PLAN, produce))
    assert [w.name[-2:] for w in written] == ["00", "01", "03", "04"]
    assert [len(w.skipped) for w in written] == [0, 0, 1, 0]
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert manifest["tests"] == [w.name for w in written] and manifest["skipped"] == {"2": "inputs"}
    assert (manifest["seed"], manifest["config"]) == (7, {"nodes": 2})
    assert manifest["license"] == "Apache-2.0"
    assert {"README.md", "polygraphy_data.py"} < {p.name for p in (tmp_path / "c").iterdir()}


def test_models_may_be_chosen_one_by_one(produce, tmp_path):
    plan = replace(PLAN, count=99, tests=tuple(Numbered(7, index) for index in (0, 2, 9, 5)))
    written = list(fill(tmp_path / "c", plan, produce))
    assert [w.name[-1:] for w in written] == ["0", "9", ""]
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert len(manifest["tests"]) == 2 and manifest["skipped"] == {"2": "inputs", "5": "inputs"}


def test_models_that_are_too_large_are_passed_over(produce, tmp_path):
    with pytest.raises(CorpusError, match=r"too large: .* bytes are more than 10"):
        list(fill(tmp_path / "c", replace(PLAN, most_bytes=10), produce))
    assert not (tmp_path / "c").exists()


def test_interrupted_and_resumed_is_the_same(produce, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    list(fill(whole, PLAN, produce))
    for _, _ in zip(range(2), fill(parts, PLAN, produce)):
        pass
    (parts / ".partial-test_nnfuzz_seed7_000003-x").mkdir()
    produce.asked.clear()
    written = list(fill(parts, PLAN, produce))
    assert [w.resumed for w in written] == [True, True, False, False]
    assert produce.asked == [2, 3, 4]
    assert contents(parts) == contents(whole)


def test_more_extends(produce, tmp_path):
    list(fill(tmp_path / "c", PLAN, produce))
    more = list(fill(tmp_path / "c", replace(PLAN, count=5), produce))
    assert [w.resumed for w in more] == [True] * 4 + [False]


@pytest.mark.parametrize(
    "other", [{"seed": 8}, {"config": {"nodes": 3}}, {"versions": {"nnfuzz": "2"}}]
)
def test_other_settings_are_refused(other, produce, tmp_path):
    list(fill(tmp_path / "c", PLAN, produce))
    before = contents(tmp_path / "c")
    with pytest.raises(CorpusError, match=next(iter(other))):
        list(fill(tmp_path / "c", replace(PLAN, **other), produce))
    assert contents(tmp_path / "c") == before


def test_the_refusal_names_what_differs_and_nothing_else(produce, tmp_path):
    plan = replace(PLAN, config={"nodes": 2, "dtypes": {"bool": None, "int8": 0.0}})
    list(fill(tmp_path / "c", plan, produce))
    other = replace(plan, config={"nodes": 2, "dtypes": {"bool": 0.0, "int8": 0.0}})
    with pytest.raises(CorpusError) as error:
        list(fill(tmp_path / "c", other, produce))
    assert "another config (dtypes: bool: None there, 0.0 wanted); choose" in str(error.value)


def test_foreign_folders_are_left_alone(produce, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(CorpusError, match="not empty"):
        list(fill(tmp_path, PLAN, produce))
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_hopeless_settings_end(tmp_path):
    asked = []

    def never(tests):
        for test in tests:
            asked.append(test)
            yield NotProduced(test, "generate", "nothing fits")

    with pytest.raises(CorpusError, match="nothing fits"):
        list(fill(tmp_path / "c", PLAN, never))
    assert len(asked) == MAX_FAILURES
    assert not (tmp_path / "c").exists()


def test_settings_that_the_producer_refuses_leave_no_folder(tmp_path):
    def refuse(tests):
        raise ValueError("unknown operator")

    with pytest.raises(ValueError, match="unknown operator"):
        list(fill(tmp_path / "c", PLAN, refuse))
    assert not (tmp_path / "c").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(produce, tmp_path):
    (tmp_path / "c").write_text("x")
    with pytest.raises(CorpusError, match="is not a folder"):
        list(fill(tmp_path / "c", PLAN, produce))
    assert (tmp_path / "c").read_text() == "x"
