"""Small models and inputs as source are exactly what they were."""

import numpy as np
import pytest
from onnx import TensorProto, helper, load_model_from_string, numpy_helper, parser

from nnfuzz.findings.repro import MAX_ELEMENTS, inline_arrays, inline_model
from nnfuzz.ir.dtypes import DType

WEIGHT = np.array([0.1, -2.5e-17, np.inf, 1e300])


def model(weight=WEIGHT, doc=""):
    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, [4])

    nodes = [
        helper.make_node("Constant", [], ["/c/Constant_output_0"], value=tensor(weight, "")),
        helper.make_node("Add", ["x", "/c/Constant_output_0"], ["h"], doc_string=doc),
        helper.make_node("Mul", ["h", "w"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], [tensor(weight, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return made.SerializeToString()


def tensor(array, name):
    return numpy_helper.from_array(np.asarray(array), name)


def test_a_model_parses_back():
    read = parser.parse_model(inline_model(model()))
    (weight,) = read.graph.initializer
    assert (numpy_helper.to_array(weight) == WEIGHT).all()
    assert [node.op_type for node in read.graph.node] == ["Constant", "Add", "Mul"]
    assert load_model_from_string(model()).graph.output == read.graph.output


def test_names_that_are_no_text_leave_the_model_in_a_file():
    named = model(doc="qqqq")
    assert inline_model(named.replace(b"qqqq", b"\xff\xfe\xff\xfe")) == ""


def test_weights_of_another_size_than_declared_leave_the_model_in_a_file():
    damaged = load_model_from_string(model())
    damaged.graph.initializer[0].dims[0] = 3
    assert inline_model(damaged.SerializeToString()) == ""


def test_what_is_long_or_does_not_parse_back_stays_in_a_file():
    assert inline_model(model(np.arange(3000.0))) == ""
    assert inline_model(model(doc="lost in the text")) == ""


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int4", "int64", "bool"]
)
def test_arrays_are_exact(dtype):
    arrays = {
        "a b": np.array([[0.1, 3.0], [7.25, 0.0]]).astype(DType(dtype).numpy),
        "scalar": np.array(1).astype(DType(dtype).numpy),
        "none": np.zeros((0, 3), DType(dtype).numpy),
    }
    read = eval(inline_arrays(arrays), {"np": np})
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        assert (read[name] == array).all()


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"]
)
def test_infinities_and_every_nan_are_exact_to_the_bit(dtype):
    with np.errstate(invalid="ignore"):
        odd = np.array([[np.inf, -np.inf], [np.nan, -0.0]]).astype(DType(dtype).numpy)
    bits = odd.view(f"uint{8 * odd.itemsize}")
    arrays = {"plain": odd, "scalar": odd[0, 0], "negated": (~bits).view(odd.dtype)}
    text = inline_arrays(arrays)
    assert "np.nan" in text and ".view(" in text
    read = eval(text, {"np": np})
    for name, array in arrays.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        assert read[name].tobytes() == array.tobytes()


def test_large_arrays_are_not_written_out():
    assert inline_arrays({"a": np.zeros(MAX_ELEMENTS + 1)}) == ""
    assert inline_arrays({}) == "{\n}"
