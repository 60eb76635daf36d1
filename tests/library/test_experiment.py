"""Experiments of a user's program, findings, and the oracle."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nnfuzz
from nnfuzz.backend.target import Target
from nnfuzz.compare.flip import Coordinate
from nnfuzz.compare.mismatch import Verdict

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


def test_the_reference_agrees_with_itself(cases):
    verdict = nnfuzz.Oracle()(cases[0], cases[0].expected)
    assert verdict.ok and str(verdict).startswith("yours: agrees")


def test_a_wrong_element_is_named(cases):
    name, array = next(iter(cases[0].expected.items()))
    wrong = {**cases[0].expected, name: array + np.float32(1000)}
    verdict = nnfuzz.Oracle()(cases[0], wrong, "mine/O3")
    assert not verdict.ok
    assert str(verdict).startswith(f"mine/cpu/O3: {name}[") and "expected" in str(verdict)


def test_a_missing_output_is_told(cases):
    name = next(iter(cases[0].expected))
    assert f"output {name!r} is missing" in str(nnfuzz.Oracle()(cases[0], {}))


def test_the_envelope_encloses_the_reference(cases):
    case = cases[0]
    for name, envelope in nnfuzz.Oracle().envelope(case).items():
        lo, hi = envelope.admitted
        assert envelope.lo.shape == case.expected[name].shape == envelope.any.shape
        assert ((lo <= case.expected[name]) & (case.expected[name] <= hi) | envelope.any).all()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([np.zeros(2)], "outputs must map names to arrays, as in {'x': array}, not be a list"),
        ({"y": [1.0]}, r"outputs\['y'\] is a list, not an array: use numpy.asarray"),
    ],
)
def test_what_is_no_array_by_name_is_refused(cases, given, told):
    with pytest.raises(TypeError, match=told):
        nnfuzz.Oracle()(cases[0], given)


def test_a_further_output_is_refused(cases):
    outputs = {**cases[0].expected, "further": np.zeros(2)}
    with pytest.raises(ValueError, match="'further' is no output of the test case; these are: "):
        nnfuzz.Oracle()(cases[0], outputs)


def test_a_path_is_no_test_case():
    with pytest.raises(TypeError, match=r"nnfuzz.case_from_onnx\('m.onnx'\) makes one"):
        nnfuzz.Oracle()("m.onnx", {})


def test_the_repr_of_a_verdict_says_how_much_was_compared():
    verdict = Verdict({Target("yours"): ()}, comparable={"y": 0.25})
    assert verdict.ok and verdict.partial == ["y"]
    assert "25 % of y; the rest is not compared" in repr(verdict)
