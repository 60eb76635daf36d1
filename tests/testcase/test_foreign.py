"""Test cases of models that others have made."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import nnfuzz
from nnfuzz.backend.contract import Backend
from nnfuzz.compare.envelope import envelopes
from nnfuzz.ir.graph import Graph
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import ModelError, TestCase
from nnfuzz.testcase.extraction import single_node, with_outputs
from nnfuzz.testcase.foreign import case_of_model

REGISTRY = OpRegistry.load()


def read(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')


def all_compared(case: TestCase) -> bool:
    graph = Graph.of(case.graph, REGISTRY.get)
    bounds = envelopes(graph, {**case.inputs, **case.weights})
    return all(own.comparable.all() for own in bounds.values())


SHAPED = read("""m (float[2, 6] x, int64[2] shape, int64 k) => (float[A, B] y) {
    r = Reshape (x, shape)  y = Trilu (r, k)
}""")


@pytest.mark.parametrize("shape, k", [((3, 4), 1), ((6, 2), -1)])
def test_given_inputs_decide_on_shapes_and_are_attributes(shape, k):
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    inputs = {"x": x, "shape": np.array(shape), "k": np.array(k)}
    case = case_of_model(SHAPED, REGISTRY, inputs)
    assert all_compared(case) and case.inputs.keys() == inputs.keys()
    assert np.array_equal(case.expected["y"], np.triu(x.reshape(shape), k))
    assert case.model == SHAPED.SerializeToString()


CHOOSING = read("""m (float[2] x, int64 rate) => (float[N] y) <int64 fast = {16}> {
    c = Equal (rate, fast)
    y = If (c) <then_branch = a () => (float[4] t) { t = Concat <axis = 0> (x, x) },
                else_branch = b () => (float[2] e) { e = Relu (x) }>
}""")


class Zipping(Backend):
    """Returns Python's own lists and dicts, as ONNX Runtime does."""

    name = "zipping"
    levels = ("O0",)

    def versions(self):
        return {}

    def load(self, model):
        return None

    def build(self, module, level):
        return lambda inputs: {"y": [{4: 2, 5: 0}, {4: 4, 5: 3}], "s": [inputs["x"]]}


def test_maps_are_a_matrix_with_a_column_for_each_key():
    """A sequence of an unknown number of tensors has no reference; its elements are returned."""
    model = parser.parse_model("""<ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml" : 1]>
    m (float[n, 2] x) => (seq(map(int64, float)) y, seq(float[n, 2]) s) {
        r = Relu(x)  y = ai.onnx.ml.ZipMap<classlabels_int64s = [5, 4]>(r)  s = SequenceConstruct(r)
    }""")
    x = np.array([[0, 2], [3, 4]], np.float32)
    case = case_of_model(model, REGISTRY, {"x": x})
    assert case.model == model.SerializeToString() and all_compared(case)
    backend = Zipping()
    outputs = backend.compile(backend.import_model(case.model), "O0")({"x": x})
    assert case.expected.keys() == {"y"} and outputs.keys() == {"y", "len(s)", "s[0]"}
    assert np.array_equal(case.expected["y"], x) and np.array_equal(outputs["y"], x)


def test_a_given_integer_chooses_a_branch_of_another_shape():
    x = np.array([-1, 2], np.float32)
    case = case_of_model(CHOOSING, REGISTRY, {"x": x, "rate": np.array(16)})
    assert all_compared(case) and case.expected["y"].tolist() == [-1, 2, -1, 2]
    case = case_of_model(CHOOSING, REGISTRY, {"x": x, "rate": np.array(8)})
    assert all_compared(case) and case.expected["y"].tolist() == [0, 2]
    with pytest.raises(ModelError, match="If"):
        case_of_model(CHOOSING, REGISTRY)


def test_open_dimensions_grow_until_the_model_runs():
    model = read("""m (float[batch, 1, samples] x) => (float[batch, 1, frames] y)
        <float[1, 1, 20] w> {
            y = Conv <kernel_shape = [20], strides = [4]> (x, w)
        }""")
    weight = np.ones((1, 1, 20), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    del model.graph.initializer[:-1]
    case = case_of_model(model, REGISTRY)
    assert all_compared(case) and case.inputs["x"].shape[2] >= 20


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


def test_the_node_in_the_way_is_named():
    made = model(
        "(float[2] x) => (float[2] y) { a = Relu(x)  n = Neg(a)  s = Sub(n, two)  y = Log(s) }",
        two=np.float32(2),
    )
    made.graph.node[-1].name = "Log_3"
    told = refused(made)
    assert "node 'Log_3' (Log): it overflows or is undefined in all of " in told
    assert "--inputs" in told


def test_large_weights_of_a_quantised_product_are_in_nobodys_way():
    text = """(float[2, 3] x) => (int32[2, 4] y) {
        q, s, z = DynamicQuantizeLinear(x)  y = MatMulInteger(q, w, z) }"""
    case = nnfuzz.case_from_onnx(model(text, w=np.full((3, 4), 127, np.int8)))
    assert all_compared(case) and case.weights["w"].max() == 127


def test_outputs_behind_a_foreign_operator_are_left_out():
    head = '<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]> m (float[2] x) => '
    made = parser.parse_model(head + "(float[2] y, float[2] z) { y = com.acme.F(x)  z = Relu(x) }")
    assert list(nnfuzz.case_from_onnx(made).expected) == ["z"]


def test_other_outputs_leave_the_nodes_of_a_model_as_they_are():
    made = model("(float[n, 2] x) => (float[n, 2] y) { a = Relu(x)  b = Exp(a)  y = Neg(b) }")
    case = nnfuzz.case_from_onnx(made)
    relu = np.maximum(case.inputs["x"], 0)
    cut = with_outputs(case, case.graph.nodes[:2], ["b", "a"], {"a": relu, "b": np.exp(relu)})
    proto = onnx.load_model_from_string(cut.model)
    onnx.checker.check_model(proto, full_check=True)
    assert [node.SerializeToString() for node in proto.graph.node] == [
        node.SerializeToString() for node in made.graph.node[:2]
    ]
    assert [value.name for value in proto.graph.output] == list(cut.expected) == ["b", "a"]
    assert with_outputs(case, (), ["elsewhere"], {}) is None


MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[2] x, float[1] unused) => (float[8,4] y) <int64[2] shape = {2, 1}> {
  a = Neg(x)
  twice = Concat<axis = 0>(shape, shape)
  halves, rest = Split<axis = 0>(twice)
  times = Add(halves, rest)
  list = SequenceConstruct(a, a)
  b = ConcatFromSequence<axis = 0, new_axis = 1>(list)
  y = Tile(b, times)
}
"""
INPUTS = {"x": np.array([1.0, -2.0], np.float32), "unused": np.zeros(1, np.float32)}


def alone(name):
    model = parser.parse_model(MODEL)
    return single_node(model, INPUTS, name)


def test_it_reads_what_is_computed_before_it_and_keeps_constants():
    model, inputs = alone("y")
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Tile"]
    assert {n: x.tolist() for n, x in inputs.items()} == {"b": [[-1.0, 2.0]] * 2}
    (times,) = model.graph.initializer
    assert onnx.numpy_helper.to_array(times).tolist() == [4, 2]
    assert alone("rest")[1] == {}


@pytest.mark.parametrize("name, why", [("z", "no node"), ("b", "list is no tensor")])
def test_what_is_no_node_on_tensors(name, why):
    with pytest.raises(ModelError, match=why):
        alone(name)


def test_what_the_evaluator_cannot_compute():
    model = parser.parse_model(MODEL)
    with pytest.raises(ModelError, match="reference: "):
        single_node(model, {}, "y")
