"""Corpora are generated, by several producers."""

import json
from dataclasses import dataclass, replace

import onnx
import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.corpus.generate import MAX_FAILURES, CorpusPlan, fill, supported_only
from nnfuzz.corpus.layout import Entry, find_tests, write_test
from nnfuzz.corpus.producers import Producers
from nnfuzz.testcase.case import CaseConfig, NotProduced
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


def test_hopeless_settings_end(tmp_path):
    asked = []

    def never(tests):
        for test in tests:
            asked.append(test)
            yield NotProduced(test, "generate", "nothing fits")

    with pytest.raises(Unreadable, match="nothing fits"):
        list(fill(tmp_path / "c", PLAN, never))
    assert len(asked) == MAX_FAILURES
    assert not (tmp_path / "c").exists()


def test_settings_that_the_producer_refuses_leave_no_folder(tmp_path):
    def refuse(tests):
        raise ValueError("unknown operator")

    with pytest.raises(ValueError, match="unknown operator"):
        list(fill(tmp_path / "c", PLAN, refuse))
    assert not (tmp_path / "c").exists()


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


# Entries made by processes side by side: order, bytes, single operators.


CONFIG = CaseConfig(nodes=3, exporter="direct", operators=("Add", "Relu", "Pad", "ArgMax", "Cast"))
TESTS = [Numbered(5, index) for index in range(8)]


def entries(processes, tests=TESTS):
    with Producers(5, as_json(CONFIG), processes) as producers:
        return list(producers.entries(tests))


@pytest.fixture(scope="module")
def made():
    return entries(1)


@pytest.mark.slow
def test_any_number_of_processes_makes_the_same_in_order(made, tmp_path):
    again = entries(3)
    for one, other in zip(made, again, strict=True):
        assert type(one) is type(other)
        if isinstance(one, Entry):
            folders = [write_test(tmp_path / name, e) for name, e in (("a", one), ("b", other))]
            files = [p.relative_to(folders[0]) for p in folders[0].rglob("*") if p.is_file()]
            assert all(
                (folders[0] / f).read_bytes() == (folders[1] / f).read_bytes() for f in files
            )
        else:
            assert one.stage == other.stage
    assert [e.case.id if isinstance(e, Entry) else e.id for e in made] == TESTS


def test_entries_pass_the_checker_and_come_back_with_tolerances(made, tmp_path):
    for entry in made:
        if isinstance(entry, NotProduced):
            assert entry.stage in ("undecided", "blunt", "inputs")
            continue
        onnx.checker.check_model(onnx.load_model_from_string(entry.case.model), full_check=True)
        write_test(tmp_path, entry)
    tests = find_tests(tmp_path)
    for test in tests:
        (first,) = test.data_sets()
        told = test.tolerances()
        assert told.of(next(iter(first.outputs))) is not None
        assert (test.path / "config.txt").read_text().startswith("per_sample_tolerance:")
