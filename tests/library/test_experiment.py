"""Experiments, findings and their reduction, as programs use them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

import nnfuzz
from nnfuzz.compare.flip import Coordinate

PLUGIN = Path(__file__).with_name("off.py")


@pytest.fixture(scope="module")
def run():
    with nnfuzz.Experiment(["onnxruntime", "off"], plugins=[PLUGIN], isolated=False) as run:
        yield run


@pytest.fixture(scope="module")
def result(run, cases):
    return run(cases[0])


def test_a_result_tells_of_every_target(result):
    assert [(o.backend, o.level) for o in result.outcomes] == [
        ("onnxruntime", "O0"),
        ("onnxruntime", "O3"),
        ("off", "O0"),
        ("off", "O3"),
    ]
    assert not result.ok
    assert "off@" in str(result) and "mismatch in compare" in str(result)


def test_a_finding_knows_its_case_and_whom_to_accuse(run, result):
    (failure,) = result.failures
    assert failure.backend == "off" and failure.levels == ("O3",)
    (finding,) = run.findings(result)
    assert finding.failure is failure and finding.case is result.case
    assert result.blame(failure).coordinate is Coordinate.PIPELINE
    assert str(failure.signature) == str(failure)
    assert finding.blame is result.blame(failure) and finding.versions["onnxruntime"]


def test_a_finding_is_reduced_and_saved_once(run, result, tmp_path):
    (finding,) = run.findings(result)
    reduced = nnfuzz.reduce(finding, budget=30, localise=False)
    assert len(reduced.case.graph.nodes) == 1
    path = nnfuzz.save_finding(reduced, tmp_path)
    assert path == nnfuzz.save_finding(reduced, tmp_path) and (path / "report.md").is_file()
    loaded = nnfuzz.load_finding(path)
    assert loaded.signature.hash == reduced.signature.hash
    assert loaded.case.digest() == reduced.case.digest()


def test_a_case_that_is_right_has_no_failures(cases):
    with nnfuzz.Experiment(["onnxruntime/O3"], isolated=False) as run:
        results = [run(case) for case in itertools.islice(cases, 2)]
    assert all(found.ok and not found.failures for found in results)
    assert [len(found.outcomes) for found in results] == [1, 1]


def test_a_model_of_ones_own_is_judged_and_reduced(model):
    with nnfuzz.Experiment(["off/O3"], plugins=[PLUGIN], isolated=False) as run:
        (finding,) = run.findings(run(nnfuzz.case_from_onnx(model)))
    assert "Softmax" in finding.signature.title
    reduced = nnfuzz.reduce(finding, budget=20, localise=False)
    assert [node.op for node in reduced.case.graph.nodes] == ["Softmax"]


def test_failures_and_signatures_hash(result):
    (failure,) = result.failures
    assert {failure: 1, failure.signature: 2}[failure] == 1
    assert hash(failure) == hash(replace(failure))


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        ("onnxruntime", r"write a list of them: \['onnxruntime'\]"),
        ([len], "is no target: name a backend"),
        (3, "targets must be a list of names, not int"),
    ],
)
def test_what_is_no_list_of_targets_is_refused(targets, told):
    with pytest.raises(TypeError, match=told):
        nnfuzz.Experiment(targets)
    with pytest.raises(TypeError, match=told):
        nnfuzz.check_model("absent.onnx", targets)
