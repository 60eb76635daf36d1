"""Titles: the cause stays whole, and of attributes those are named that matter."""

from onnx import TensorProto, helper, parser

from nnfuzz.compare.mismatch import Mismatch
from nnfuzz.triage import headline as title
from nnfuzz.triage.keys import Hypothesis


def model(*nodes, opset=19):
    graph = helper.make_graph(nodes, "g", [], [])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return made.SerializeToString()


def test_operators_have_the_attributes_that_are_not_at_their_defaults():
    resize = helper.make_node(
        "Resize",
        ["x", "", "s"],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode="tf_crop_and_resize",
        antialias=0,
    )
    assert title.operators_text(model(resize)) == (
        "Resize, coordinate_transformation_mode=tf_crop_and_resize"
    )


def test_neutral_attributes_without_a_default_are_left_out():
    conv = helper.make_node(
        "Conv", ["x", "w"], ["y"], strides=[2, 2], pads=[0] * 4, dilations=[1, 1]
    )
    cast = helper.make_node("Cast", ["y"], ["z"], to=TensorProto.DOUBLE)
    assert title.operators_text(model(conv, cast)) == "Conv, strides=[2, 2] + Cast, to=double"


def test_a_long_model_is_named_by_what_it_was_made_from():
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"x{i + 1}"]) for i in range(6)]
    assert title.operators_text(model(*nodes), ["ReluTwice"]) == "Relu"
    assert title.operators_text(model(*nodes)).endswith(" and 2 more")


def test_what_is_no_model_has_no_operators():
    assert title.operators_text(b"\xff no model") == ""


def test_an_explanation_does_not_repeat_the_operator():
    names, habit = ("Resize", "Mul"), "int64 is computed in float32"
    assert Hypothesis.parse("Resize ignores antialias").said_of(names) == "ignores antialias"
    assert Hypothesis.parse(habit).said_of(names) == habit


def test_wrong_shapes_are_named():
    wrong = Mismatch.__new__(Mismatch)
    object.__setattr__(wrong, "actual", "[1]")
    object.__setattr__(wrong, "expected", "[1, 1]")
    assert title.wrong_in_words("shape", wrong) == "wrong shape, [1] for [1, 1]"
    assert title.wrong_in_words("value") == "wrong values"


def test_only_what_a_model_says_can_be_ignored():
    made = helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_shape=[1, 1])
    found = title.unwritten(model(made))
    assert "pads" in found and "output_shape" not in found
    assert title.unwritten(model(made, made)) == title.unwritten(b"") == []


def test_a_threshold_of_0_is_not_its_absence():
    made = model(helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=1, clip=0.0))
    assert title.operators_text(made) == "RNN, clip=0"


def test_the_dtype_of_a_title_is_that_of_data_and_not_of_parameters():
    text = """<ir_version: 8, opset_import: ["" : 18]>
    g () => (bool[1] y) <bool[1] x = {1}, int64[2] p = {0, 0}> { y = Pad (x, p) }"""
    made = parser.parse_model(text).SerializeToString()
    assert title.operators_text(made) == "bool Pad"


def test_a_title_names_the_passes_to_blame_first_then_the_dtype_and_what_is_in_bodies():
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Clip", ["a"], ["b"])],
        "g",
        [],
        [helper.make_tensor_value_info("b", TensorProto.INT64, [])],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    values = [
        helper.make_tensor_value_info(name, dtype, [])
        for name, dtype in (("c", TensorProto.BOOL), ("x", TensorProto.INT64))
    ]
    made = helper.make_model(helper.make_graph([node], "g", values, []))
    operators = title.operators_text(made.SerializeToString())
    assert operators == "int64 If(Relu + Clip)"
    text = title.sentence("toy", "no 'min'", "O3 only", operators, ["FuseReluClip"])
    assert text == "toy: FuseReluClip: int64 If(Relu + Clip): no 'min' (O3 only)"
    assert title.sentence("toy", "x", passes=["A", "B", "C"]) == "toy: A, B, ...: x"
