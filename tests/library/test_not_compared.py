"""Nothing is "ok" that was not compared: nodes without an operator spec, masks with -inf."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import nnfuzz
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.cli.errors import NOT_COMPARED
from nnfuzz.compare.mismatch import Loss, Verdict
from tests.command import nnfuzz as command

HEAD = '<ir_version: 8, opset_import: ["" : 17]> m (float[2, 3] x) => '
UNKNOWN = (
    "r = Exp(x)  s = SequenceConstruct(r)  i = Constant<value = int64 {0}>()  y = SequenceAt(s, i)"
)
WHY = "SequenceConstruct, SequenceAt have no operator spec in nnfuzz"


@pytest.fixture(scope="module")
def unknown() -> nnfuzz.TestCase:
    text = f"{HEAD}(float[2, 3] y) {{ {UNKNOWN} }}"
    return nnfuzz.case_from_onnx(parser.parse_model(text))


def masked(scores: np.ndarray) -> nnfuzz.TestCase:
    """Softmax(x + scores)"""
    mask = numpy_helper.from_array(scores, "mask")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 8]) for n in "xy")
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "m", [x], [y], [mask])
    opsets = [helper.make_opsetid("", 17)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    given = np.arange(64, dtype=np.float32).reshape(8, 8) / 8
    return nnfuzz.case_from_onnx(model, {"x": given})


def test_the_oracle_does_not_agree_with_what_it_cannot_compare(unknown):
    ((name, array),) = unknown.expected.items()
    verdict = nnfuzz.Oracle()(unknown, {name: np.full_like(array, 1e9)})
    assert not verdict.ok and not verdict.compared and verdict.comparable == {name: 0.0}
    assert str(verdict) == f"yours: not compared: {WHY}"
    assert read(Verdict, as_json(verdict)) == verdict


def test_a_result_of_nothing_compared_is_not_ok(unknown):
    with nnfuzz.Experiment(["onnxruntime/O0"], isolated=False) as run:
        result = run(unknown)
    (outcome,) = result.outcomes
    assert outcome.kind is OutcomeKind.NOT_COMPARED and not result.ok and not result.failures
    assert str(result) == f"{outcome.target}: not compared: {WHY}"


def causal() -> np.ndarray:
    return np.triu(np.full((8, 8), -np.inf, np.float32), 1)


def test_what_a_causal_mask_leaves_is_compared_as_a_whole():
    case = masked(causal())
    verdict = nnfuzz.Oracle()(case, case.expected)
    assert verdict.ok and set(verdict.comparable.values()) == {1.0} and not verdict.losses
    ((name, array),) = case.expected.items()
    wrong = array.copy()
    wrong[2, 5] = 0.25  # the mask is ignored
    (found,) = nnfuzz.Oracle()(case, {name: wrong}).mismatches.values()
    assert [m.worst.index for m in found if m.worst] == [(2, 5)]


def test_rows_that_a_mask_leaves_empty_are_lost_at_the_softmax():
    scores = causal()
    scores[:3] = -np.inf
    case = masked(scores)
    verdict = nnfuzz.Oracle()(case, case.expected)
    assert verdict.ok and set(verdict.comparable.values()) == {5 / 8}
    first = str(verdict).splitlines()[0]
    assert first.startswith("yours: agrees on 62 % of ")
    assert "the rest is not compared: Softmax has a result that is infinite or not a num" in first


def test_an_output_that_is_compared_hides_nothing_about_another():
    text = f"{HEAD}(float[2, 3] y, float[2, 3] z) {{ {UNKNOWN}  z = Relu(x) }}"
    case = nnfuzz.case_from_onnx(parser.parse_model(text))
    verdict = nnfuzz.Oracle()(case, case.expected)
    assert verdict.ok and sorted(verdict.comparable.values()) == [0.0, 1.0]
    assert str(verdict).endswith(f"; the rest is not compared: {WHY}")


def test_a_folder_of_which_nothing_is_compared_has_an_exit_code_of_its_own(unknown, tmp_path):
    nnfuzz.save_case(unknown, tmp_path)
    ran = command("verify", tmp_path, "-b", "onnxruntime", "--level", "O0")
    assert ran.returncode == NOT_COMPARED, ran.stderr
    assert "1 not compared" in ran.stdout and WHY in ran.stdout


def test_shares_are_rounded_down():
    loss = {"y": (Loss("Floor", "y", "Floor decides over overlapping intervals"),)}
    assert Verdict({}, {"y": 0.899}, losses=loss).agreement.startswith("agrees on 89 % of y; the")
    assert Verdict({}, {"y": 0.001}, losses=loss).agreement.startswith("agrees on less than 1 %")
    assert Verdict({}, {"y": 0.9}, losses=loss).agreement == "agrees"
