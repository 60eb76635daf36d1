"""A model as a pattern: which other models contain it, with which ingredients."""

import numpy as np
import onnx
import pytest

from scripts.recall.containment import INGREDIENTS, contains, facts

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
PATTERN = "g (float[3] x) => (float[3] y) <float one = {1.0}> { m = Identity(x) y = Mul(m, one) }"
WHOLE = """g (float[3] x) => (float[3] z) <float[3] all = {1.0, 1.0, 1.0}, float[1] one = {1.0}> {
    a = Relu(x) m = Identity(a) y = Mul(one, m) z = Neg(y) }"""


def read(text, **inputs):
    arrays = {name: np.array(value, np.float32) for name, value in inputs.items()}
    return facts(onnx.parser.parse_model(HEAD + text), arrays)


def without(*names):
    return [name for name in INGREDIENTS if name not in names]


def test_a_model_contains_what_stands_between_other_nodes():
    assert contains(read(WHOLE), read(PATTERN), without("ranks"))
    assert not contains(read(WHOLE), read(PATTERN))


@pytest.mark.parametrize(
    ("lacking", "old", "new"),
    [
        ("joined", "Mul(one, m)", "Mul(one, a)"),
        ("values", "one = {1.0}", "one = {2.0}"),
        ("constants", "Mul(one, m)", "Mul(x, m)"),
        ("readers", "Neg(y)", "Mul(y, m)"),
        ("dtypes", "float", "double"),
    ],
)
def test_an_ingredient_is_lacking(lacking, old, new):
    model = read(WHOLE.replace(old, new))
    assert not contains(model, read(PATTERN), without("ranks"))
    # What is read elsewhere has no reader here, and what is no constant has no constant's value.
    also = {"joined": "readers", "constants": "values"}.get(lacking, lacking)
    assert contains(model, read(PATTERN), without("ranks", lacking, also))


def test_attributes_that_a_model_leaves_out_have_onnx_s_own_values():
    pattern = read("g (float[3,2] x) => (float[3,2] y) { y = Softmax <axis = -1> (x) }")
    plain = "g (float[3,2] x) => (float[3,2] y) { y = Softmax (x) }"
    assert contains(read(plain), pattern)
    other = read(plain.replace("Softmax", "Softmax <axis = 0>"))
    assert not contains(other, pattern)
    assert contains(other, pattern, without("attributes"))


def test_an_initializer_that_is_an_input():
    pattern = read("g (float[2] x, float[2] w = {1, 1}) => (float[2] y) { y = Add(x, w) }")
    constant = "g (float[2] x) => (float[2] y) <float[2] w = {1, 1}> { y = Add(x, w) }"
    assert not contains(read(constant), pattern)
    assert contains(read(constant), pattern, without("defaults"))


def test_inputs_hold_nan():
    text = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    pattern = read(text, x=[0.0, np.nan])
    assert contains(read(text, x=[np.nan, np.inf]), pattern)
    assert not contains(read(text, x=[0.0, np.inf]), pattern)


def test_joints_alone_are_the_same_at_any_operand():
    head = "g (float[2,2] x, float[2,2] w, float[2] b) => (float[2,2] y)"
    second = read(head + " { t = Transpose(w) y = Gemm(x, t, b) }")
    first = read(head + " { t = Transpose(x) y = Gemm(t, w) }")
    assert contains(first, second, ["joined"]) and contains(second, first, ["joined"])
    assert not contains(first, second, ["joined", "attributes"])
    apart = read(head + " { t = Transpose(x) y = Gemm(x, w) }")
    assert not contains(apart, second, ["joined"])


def test_weights_that_are_stored_elsewhere_are_constants_of_any_value():
    model = onnx.parser.parse_model(HEAD + PATTERN)
    weight = model.graph.initializer[0]
    weight.CopyFrom(onnx.TensorProto(name="one", data_type=weight.data_type, dims=weight.dims))
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="elsewhere")
    one = facts(model).values["one"]
    assert one.constant and one.uniform is None and read(PATTERN).values["one"].uniform == 1.0
