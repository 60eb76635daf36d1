"""Inputs for models of others: found where there are some; else the node in the way is named."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import nnfuzz
from nnfuzz.testcase.foreign import with_outputs

HEAD = '<ir_version: 8, opset_import: ["" : 17]> m '


def model(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    made = parser.parse_model(HEAD + text)
    for name, array in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


def test_a_mask_of_minus_infinity_is_kept_and_inputs_are_found():
    mask = np.triu(np.full((4, 4), -np.inf, np.float32), 1)
    text = "(float[2, 4, 4] x) => (float[2, 4, 4] y) { a = Add(x, mask)  y = Softmax(a) }"
    case = nnfuzz.case_from_onnx(model(text, mask=mask))
    assert np.isneginf(case.weights["mask"]).any()
    assert np.isfinite(case.expected["y"]).all() and 0.1 < np.abs(case.inputs["x"]).max() < 100


def test_an_input_may_be_a_mask():
    """(1 - mask) times the least number is added, as Hugging Face's models do."""
    text = """(float[2, 4] x, int64[2, 4] keep) => (float[2, 4] y) {
        k = Cast<to = 1>(keep)  d = Sub(one, k)  m = Mul(d, least)
        a = Add(m, x)  b = Add(m, a)  y = Softmax(b) }"""
    least = np.float32(np.finfo(np.float32).min)
    case = nnfuzz.case_from_onnx(model(text, one=np.float32(1), least=least))
    assert np.isfinite(case.expected["y"]).all()


def test_indices_reach_both_ends_of_their_axis():
    text = "(int64[n, 5] ids) => (float[n, 5, 3] y) { y = Gather(words, ids) }"
    case = nnfuzz.case_from_onnx(model(text, words=np.ones((7, 3), np.float32)))
    assert case.inputs["ids"].max() == 6 and -7 <= case.inputs["ids"].min() <= 0


def refused(made: onnx.ModelProto) -> str:
    with pytest.raises(nnfuzz.ModelError) as caught:
        nnfuzz.case_from_onnx(made)
    return str(caught.value)


def test_the_node_in_the_way_is_named_with_its_value_and_range():
    made = model(
        "(float[2] x) => (float[2] y) { a = Relu(x)  n = Neg(a)  s = Sub(n, two)  y = Log(s) }",
        two=np.float32(2),
    )
    made.graph.node[-1].name = "Log_3"
    told = refused(made)
    assert "node 'Log_3' (Log): its input 's' is at most -2 whatever the inputs are" in told
    assert "--inputs" in told


def test_where_nothing_is_certain_the_trials_are_told():
    made = model(
        "(float[2] x) => (float[2] y) { e = Exp(x)  a = Add(e, big)  y = Mul(a, a) }",
        big=np.float32(3e19),
    )
    told = refused(made)
    assert "Mul, which computes 'y'" in told
    assert "its input 'a' is 3e+19 in each of 24 trials, and it is undefined there or" in told


def test_outputs_behind_a_foreign_operator_are_left_out():
    head = '<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]> m (float[2] x) => '
    made = parser.parse_model(head + "(float[2] y, float[2] z) { y = com.acme.F(x)  z = Relu(x) }")
    assert list(nnfuzz.case_from_onnx(made).expected) == ["z"]


def test_other_outputs_leave_the_nodes_of_a_model_as_they_are():
    made = model("(float[n, 2] x) => (float[n, 2] y) { a = Relu(x)  b = Exp(a)  y = Neg(b) }")
    case = nnfuzz.case_from_onnx(made)
    graph = nnfuzz.Oracle().graph(case)
    relu = np.maximum(case.inputs["x"], 0)
    cut = with_outputs(case, graph, ["b", "a"], {"a": relu, "b": np.exp(relu)})
    assert cut is not None
    proto = onnx.load_model_from_string(cut.model)
    onnx.checker.check_model(proto, full_check=True)
    assert [node.SerializeToString() for node in proto.graph.node] == [
        node.SerializeToString() for node in made.graph.node[:2]
    ]
    assert [value.name for value in proto.graph.output] == list(cut.expected) == ["b", "a"]
    assert with_outputs(case, graph, ["elsewhere"], {}) is None
