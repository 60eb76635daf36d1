"""Filling a corpus, and refusing folders."""

import json
from dataclasses import dataclass, replace

import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.corpus.generate import MAX_FAILURES, CorpusPlan, fill, supported_only
from nnfuzz.corpus.layout import CorpusError, Entry
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Numbered

PLAN = CorpusPlan(4, 7, {"nodes": 2}, {"nnfuzz": "1"})


@pytest.fixture
def produce(case):
    """Every third index gives no test case."""

    def make(tests):
        for test in tests:
            if test.index % 3 == 2:
                yield NotProduced(test, "inputs", "no input")
            else:
                yield Entry(replace(case, id=test))

    return make


def test_fills_and_says_what_was_skipped(produce, tmp_path):
    written = list(fill(tmp_path / "c", PLAN, produce))
    names = [made for made in written if isinstance(made, str)]
    assert [name[-2:] for name in names] == ["00", "01", "03", "04"]
    assert isinstance(written[2], NotProduced) and len(written) == 5
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert manifest["tests"] == names and manifest["skipped"] == {"2": "inputs"}
    assert (manifest["seed"], manifest["config"]) == (7, {"nodes": 2})
    assert manifest["license"] == "Apache-2.0"
    assert "README.md" in {p.name for p in (tmp_path / "c").iterdir()}


def test_models_may_be_chosen_one_by_one(produce, tmp_path):
    plan = replace(PLAN, count=99, tests=tuple(Numbered(7, index) for index in (0, 2, 9, 5)))
    list(fill(tmp_path / "c", plan, produce))
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert [name[-1:] for name in manifest["tests"]] == ["0", "9"]
    assert manifest["skipped"] == {"2": "inputs", "5": "inputs"}


def test_models_that_are_too_large_are_passed_over(produce, tmp_path):
    with pytest.raises(CorpusError, match=r"too large: .* bytes are more than 10"):
        list(fill(tmp_path / "c", replace(PLAN, most_bytes=10), produce))
    assert not (tmp_path / "c").exists()


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


@dataclass(frozen=True)
class Fake:
    """A runner whose compiler gives the same outcome for every model."""

    kind: OutcomeKind
    name = "fake"
    reads = "onnx"

    @property
    def backend(self):
        return type("Backend", (), {"levels": ("O0",)})

    def run(self, model, inputs, levels):
        return [Outcome(self.kind, Stage.COMPILE, Target("fake", "O0"), message="no")]


def test_what_one_compiler_lacks_is_left_out(case):
    made = [Entry(replace(case, id=Numbered(7, k))) for k in range(2)]
    takes, lacks = Fake(OutcomeKind.OK), Fake(OutcomeKind.UNSUPPORTED)
    assert list(supported_only(made, [takes, Fake(OutcomeKind.CRASH)])) == made
    left_out = supported_only(made, [takes, lacks])
    assert [made.stage for made in left_out] == ["unsupported"] * 2
