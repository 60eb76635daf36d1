"""Entries made by processes side by side: order, bytes, single operators."""

import itertools
from dataclasses import replace

import onnx
import pytest

from nnfuzz.base.writing import as_json
from nnfuzz.corpus.layout import Entry, find_tests, write_test
from nnfuzz.corpus.producers import Producers
from nnfuzz.ir.features import features
from nnfuzz.testcase.case import CaseConfig, NotProduced
from nnfuzz.testcase.identity import Numbered

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


def test_single_operators_show_every_mode():
    with Producers(0, as_json(replace(CONFIG, operators=("Pad",))), 2) as producers:
        keys = [
            key for key in producers.signatures() if "float32" in key.dtypes or "int8" in key.dtypes
        ]
        found = list(itertools.chain.from_iterable(producers.instances(keys)))
        shown = set()
        for entry in producers.entries(found):
            assert isinstance(entry, Entry) and len(entry.case.graph.nodes) == 1
            assert features(entry.case.graph).attribute_values() - shown
            shown |= features(entry.case.graph).attribute_values()
    for dtype in ("float32", "int8"):
        modes = {text.rpartition("=")[2] for text in shown if f"({dtype}) mode=" in text}
        assert {'"constant"', '"reflect"', '"edge"'} <= modes
