"""Targets that differ where the envelope has no opinion: nobody knows who is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import nnfuzz
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import Coordinate
from nnfuzz.compare.mismatch import Verdict

PLUGINS = [Path(__file__).parent / "differing.py"]
UNKNOWN = """<ir_version: 8, opset_import: ["" : 17]> m (float[2, 3] x) => (float[2, 3] y) {
a = Exp(x)  s = SequenceConstruct(a)  i = Constant<value = int64 {0}>()  b = SequenceAt(s, i)
c = Relu(b)  d = Sqrt(a)  y = Add(c, d) }"""


@pytest.fixture(scope="module")
def unknown() -> nnfuzz.TestCase:
    given = {"x": np.arange(1, 7, dtype=np.float32).reshape(2, 3)}
    return nnfuzz.TestCase.from_onnx(parser.parse_model(UNKNOWN), given)


def run(case: nnfuzz.TestCase, *targets: str) -> nnfuzz.Result:
    with nnfuzz.Experiment(targets, PLUGINS, repeats=1) as experiment:
        return experiment(case)


def test_a_level_that_differs_from_a_simpler_one_is_disputed(unknown):
    result = run(unknown, "optimising")
    kinds = {o.level: o.kind for o in result.outcomes}
    assert kinds == {"O0": OutcomeKind.NOT_COMPARED, "O3": OutcomeKind.DISPUTED}
    (failure,) = result.failures
    assert failure.kind is OutcomeKind.DISPUTED and failure.levels == ("O3",)
    assert "differs from O0 at Add" in failure.signature.title
    assert "nobody knows who is right" in failure.signature.title
    assert result.blame(failure).coordinate is Coordinate.PIPELINE
    assert not result.ok and "nobody knows who is right" in str(result)


def test_the_oracle_holds_compilers_against_each_other(unknown):
    ((name, array),) = unknown.expected.items()
    oracle = nnfuzz.Oracle()
    same = oracle.votes(unknown, {"one": {name: array}, "two": {name: array * np.float32(1.00001)}})
    assert not same.disputes
    verdict = oracle.votes(unknown, {"one": {name: array}, "two": {name: array + np.float32(1)}})
    assert not verdict.ok and "nobody knows who is right" in str(verdict)
    assert [str(target) for target in verdict.suspects] == ["two"]


def test_compilers_differ_and_the_reference_evaluator_votes(unknown):
    result = run(unknown, "doubling/O0", "plain/O0")
    (dispute,) = result.verdict.disputes.values()
    assert [[t.compiler for t in group] for group in dispute.groups] == [
        ["plain", "onnx.reference"],
        ["doubling"],
    ]
    right = np.exp(np.float64(1)) + np.exp(np.float64(0.5))
    assert dispute.votes == (2, 1)
    np.testing.assert_allclose(dispute.values, (right, 2 * right), rtol=1e-6)
    (failure,) = result.failures
    assert failure.backend == "doubling"
    assert "plain and onnx.reference agree" in result.blame(failure).evidence
    assert read(Verdict, as_json(result.verdict)) == result.verdict


FOREIGN = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> m (float[2, 3] x) =>
(float[2, 2] y) { t = Transpose(x)  y = com.microsoft.FusedMatMul(x, t) }"""
CHAOS = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> m (float[2, 3] x) =>
(float[2, 2] y) { t = Transpose(x)  f = com.microsoft.FusedMatMul(x, t)
h = Constant<value = float {1e9}>()  p = Mul(f, h)  y = Sin(p) }"""


def test_compilers_are_compared_where_nothing_has_a_reference(tmp_path):
    check = nnfuzz.check_model(
        parser.parse_model(FOREIGN), ["plain", "doubling/O3"], plugins=PLUGINS
    )
    (output,) = check.outputs
    assert output.disputed and output.groups == (("plain O0", "plain O3"), ("doubling O3",))
    assert check.failed and check.summary().startswith("DISPUTED: doubling O3")
    (place,) = check.save(tmp_path).places
    assert nnfuzz.Finding.load(place.folder, PLUGINS).failure.kind is OutcomeKind.DISPUTED
    same = nnfuzz.check_model(
        parser.parse_model(FOREIGN), ["plain", "onnxruntime"], plugins=PLUGINS
    )
    assert not same.failed and not same.compared and not same.outputs[0].disputed


def test_what_changes_with_the_last_digits_of_inputs_is_not_disputed():
    check = nnfuzz.check_model(parser.parse_model(CHAOS), ["plain", "doubling/O3"], plugins=PLUGINS)
    assert not check.failed and not check.outputs[0].disputed


def test_what_agrees_is_not_disputed(unknown):
    result = run(unknown, "plain", "onnxruntime")
    assert not result.failures and not result.verdict.disputes
    assert {o.kind for o in result.outcomes} == {OutcomeKind.NOT_COMPARED}


@pytest.mark.slow
@pytest.mark.parametrize("targets", [("optimising",), ("plain/O0", "doubling/O3")])
def test_a_disputed_finding_is_saved_and_reduced(unknown, targets, tmp_path):
    (failure,) = run(unknown, *targets).failures
    folder = failure.finding.save(tmp_path)
    reduced = nnfuzz.reduce(nnfuzz.Finding.load(folder, PLUGINS), workers=1, budget=60)
    assert reduced.failure.kind is OutcomeKind.DISPUTED
    assert len(reduced.case.graph.nodes) < len(unknown.graph.nodes)
    again = nnfuzz.Finding.load(reduced.save(tmp_path / "reduced"), PLUGINS)
    assert again.verdict == reduced.verdict
