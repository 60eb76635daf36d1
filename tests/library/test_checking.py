"""Checks of a user's model: what is right and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper, parser

import nnfuzz
from nnfuzz.backend.target import Target
from nnfuzz.library.model_check import Computed, Output, OutputState, _states
from nnfuzz.operators.registry import OpRegistry
from tests.planted import one_node, onnx_runtime, stateful

PLUGIN = Path(__file__).with_name("strange.py")
DIFFERING = Path(__file__).with_name("differing.py")
ONE_NODE = one_node.__file__
HEAD = '<ir_version: 8, opset_import: ["" : 17]> m '


def parsed(text: str) -> onnx.ModelProto:
    """A model whose nodes are called OPERATOR_POSITION."""
    model = parser.parse_model(HEAD + text)
    for i, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{i}"
    return model


MODEL = parsed(
    "(float[2, 6] x) => (float[2, 6] y) { a = Tanh(x)  m = Mul(a, a)  s = Add(m, x)  e = Erf(s)  "
    "y = Softmax(e) }"
)


@pytest.fixture(scope="module")
def right():
    return nnfuzz.check_model(MODEL, ["onnxruntime", "fusing/O0"], plugins=[PLUGIN])


def test_nobody_is_wrong_where_onnx_reference_contradicts_nnfuzz(monkeypatch):
    """nnfuzz's Sinh is spoilt, and the rest of the model is right."""
    monkeypatch.setattr(OpRegistry.load().get("Sinh"), "torch", staticmethod(torch.asinh))
    model = parsed("(float[2] x) => (float[2] y, float[2] z) { y = Sinh(x)  z = Relu(x) }")
    check = nnfuzz.check_model(model, ["onnxruntime/O0"], localise=False)
    assert not check.failed and not check.places
    assert not check.compared and check.contradicted == ("y",)
    first, second = check.outputs
    assert str(first.computed[0]).startswith("nnfuzz and onnx.reference differ: y[0] is ")
    assert second.computed[0].state == "right"
    assert check.summary().endswith("nnfuzz and onnx.reference differ on y, a fault of nnfuzz")
    json.dumps(check.to_json())


def test_what_a_default_gives_away_is_not_wrong():
    check = nnfuzz.check_model(MODEL, ["giving"], plugins=[PLUGIN])
    assert check.given_away == ("giving default",) and not check.failed and not check.ok
    assert check.summary().startswith("GIVEN AWAY: giving default: accuracy given away")
    states = {own.target: own.state for own in check.outputs[0].computed}
    assert states == {"giving O0": "right", "giving O3": "right", "giving default": "given away"}
    (own,) = (own for own in check.outputs[0].computed if own.state == "given away")
    assert str(own).startswith("accuracy given away by default: right with digits=all, up to 0.000")
    assert check.settings == {"giving": ("digits=all",)} and "giving: digits=all" in check.text()
    page = check.html()
    assert page.count(' g-wrong"') == 1 and "<code>a</code> is the first value that is off" in page
    assert "Output y of giving default" in page and page.count('class="heat"') == 3
    assert check._repr_html_().startswith("<table>") and "giving default" in check._repr_html_()
    named = nnfuzz.check_model(MODEL, ["giving/O0", "giving/O3"], plugins=[PLUGIN])
    assert named.ok


def test_what_an_interface_narrows_is_not_wrong():
    model = parsed("(double[2, 6] x) => (double[2, 6] y) { y = Tanh(x) }")
    check = nnfuzz.check_model(model, ["giving/O3"], plugins=[PLUGIN])
    assert check.given_away == ("giving O3",) and not check.failed
    text = str(check.outputs[0].computed[0])
    assert text.startswith("accuracy given away by its interface: float64 is computed in float32")


def test_a_right_model_is_right_at_every_node(right):
    assert right.ok and right.compared and not right.failed and not right.places
    assert right.summary() == "right: all outputs on all 4 targets"
    (output,) = right.outputs
    assert (output.name, output.share) == ("y", 1.0)
    assert [own.target for own in output.computed] == [
        "onnxruntime O0",
        "onnxruntime O3",
        "onnxruntime default",
        "fusing O0",
    ]
    assert all(own.state == "right" and own.ulp < 100 for own in output.computed)
    assert [(v.name, v.operator, v.node) for v in right.values] == [
        ("a", "Tanh", "Tanh_0"),
        ("m", "Mul", "Mul_1"),
        ("s", "Add", "Add_2"),
        ("e", "Erf", "Erf_3"),
        ("y", "Softmax", "Softmax_4"),
    ]
    assert "node 'Mul_1' (Mul) -> m float32[2, 6]: right" in right.text(nodes=True)
    json.dumps(right.to_json())


def planted(model: onnx.ModelProto, fault: str, value: str) -> nnfuzz.ModelCheck:
    target = Target(f"one-node,fault={fault},value={value}")
    return nnfuzz.check_model(model, ["onnxruntime/O0", target], plugins=[ONE_NODE])


def test_a_wrong_kernel_is_found_at_its_node(tmp_path):
    check = planted(MODEL, "cheap_erf", "e")
    assert check.failed and not check.ok and check.summary() == "WRONG: 1 of 3 targets fail"
    (place,) = check.places
    assert (place.node, place.operator, place.value) == ("Erf_3", "Erf", "e")
    assert place.before == "what it reads is right" and not place.hidden
    assert place.accused == "optimiser" and "O0: ok" in place.evidence[0]
    (output,) = check.outputs
    assert output.groups == (
        ("onnxruntime O0", "one-node O0,fault=cheap_erf,value=e", "PyTorch"),
        ("one-node O3,fault=cheap_erf,value=e",),
    )
    (saved,) = check.save(tmp_path).places
    again = nnfuzz.load_finding(saved.folder, plugins=[ONE_NODE])
    assert again.signature == place.finding.signature
    assert again.localisation and again.localisation["value"] == "e"


def test_what_later_nodes_hide_is_found():
    model = parsed(
        "(float[2, 6] x) => (float[2] y) { a = Sigmoid(x)  b = Floor(a)  "
        "y = ReduceMax<axes = [1], keepdims = 0>(b) }"
    )
    check = planted(model, "half", "a")
    (place,) = check.places
    assert place.hidden and place.node == "Sigmoid_0" and check.failed
    assert not check.result.failures and "no output of the model shows it" in str(check)


def test_a_wrong_fusion_is_found_at_the_node_that_ends_it():
    check = nnfuzz.check_model(MODEL, ["fusing"], plugins=[PLUGIN])
    (place,) = check.places
    assert (place.node, place.value) == ("Add_2", "s")
    assert place.wrong is not None and "it takes a fusion" in str(check)
    assert all(own.state == "right" for value in check.values for own in value.computed)


def test_a_recurrent_cell_without_its_last_output_keeps_its_node():
    """The spec has an output that the model leaves out."""
    text = "(float[4, 1, 3] x) => (float[4, 1, 1, 2] y) "
    model = parsed(text + "{ h = GRU<hidden_size = 2>(x, w, r)  y = Erf(h) }")
    for name, shape in (("w", (1, 6, 3)), ("r", (1, 6, 2))):
        array = np.linspace(-1, 1, np.prod(shape), dtype=np.float32).reshape(shape)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    check = nnfuzz.check_model(model, ["raising/O0"], plugins=[PLUGIN])
    assert [value.node for value in check.values] == ["GRU_0", "Erf_1"]
    assert [place.node for place in check.places] == ["Erf_1"]


def test_of_an_error_the_node_is_told_with_which_it_begins():
    check = nnfuzz.check_model(MODEL, ["raising/O0", "onnxruntime/O0"], plugins=[PLUGIN])
    (place,) = check.places
    assert place.node == "Erf_3" and place.wrong is None and check.verdict == "FAILS"
    assert "fails first at: e" in str(check) and "no such kernel" in str(check)
    assert {own.state for own in check.outputs[0].computed} == {"exception in compile", "right"}


def test_an_output_that_only_a_compiler_can_compute_is_not_compared():
    text = '<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]> m (float[2] x) => '
    model = parser.parse_model(text + "(float[2] y, float[2] z) { y = com.acme.F(x)  z = Relu(x) }")
    check = nnfuzz.check_model(model, ["onnxruntime/O0"])
    assert {output.name: output.share for output in check.outputs} == {"z": 1.0, "y": 0.0}
    assert not check.compared and not check.failed and check.summary().startswith("not compared")


FOREIGN = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> m (float[2, 3] x) =>
(float[2, 2] y) { t = Neg(x)  y = com.microsoft.CDist<metric = "euclidean">(x, t) }"""
UNKNOWN = """(float[2, 3] x) => (float[2, 3] y) { a = Exp(x)  s = SequenceConstruct(a)
i = Constant<value = int64 {0}>()  y = SequenceAt(s, i) }"""


@pytest.mark.parametrize(
    ("model", "where", "others"),
    [
        (parser.parse_model(FOREIGN), ", first at CDist", ()),
        (parsed(UNKNOWN), ", first at node 'SequenceAt_3' (SequenceAt)", ("onnx.reference",)),
    ],
)
def test_compilers_that_differ_where_nothing_has_a_reference_are_named(model, where, others):
    check = nnfuzz.check_model(model, ["plain", "doubling/O3"], plugins=[DIFFERING])
    (output,) = check.outputs
    assert not (check.failed or check.compared or check.places)
    right = "plain O0", "plain O3", "plain default", *others
    assert output.groups == (right, ("doubling O3",))
    assert f"they differ: {', '.join(right)} | doubling O3" in str(check)
    assert check.summary().startswith(f"differ: targets differ on y{where}; y is without ref")
    same = nnfuzz.check_model(model, ["plain", "onnxruntime"], plugins=[DIFFERING])
    assert same.ok and same.verdict == "agree" and not same.outputs[0].differs
    assert {*same.outputs[0].agree} >= {"plain O0", "plain O3", "onnxruntime O0", "onnxruntime O3"}


def test_nodes_behind_one_without_a_reference_are_judged_by_what_they_read():
    model = parsed(
        """(float[2] x) => (float[2] y) { r = Exp(x)  l = SequenceConstruct(r, r)
        i = Constant<value = int64 {0}>()  s = SequenceAt(l, i)  t = Tanh(s)  y = Add(t, t) }"""
    )
    targets = ["onnxruntime/O0", Target("planted,value=y", pipeline="O0")]
    check = nnfuzz.check_model(model, targets, plugins=[onnx_runtime.__file__], localise=False)
    states = {v.name: [c.state for c in v.computed] for v in check.values}
    assert states["s"] == ["agrees"] * 2 and states["t"] == ["right"] * 2
    (place,) = check.places
    assert check.failed and "planted" in place.targets[0] and place.value == "y"
    assert place.before == "what it reads is taken as onnxruntime O0 computes it"
    assert "no output of the model shows it" not in str(check)


def test_a_mask_of_dropout_that_nobody_reads_is_no_value_to_compare():
    """It had another dtype before opset 10, and Softmax of then is several nodes of the graph."""
    text = '<ir_version: 4, opset_import: ["" : 9]> m (float[2, 3, 4] x) => (float[2, 3, 4] y) '
    model = parser.parse_model(text + "{ d, m = Dropout(x)  y = Softmax(d) }")
    check = nnfuzz.check_model(model, ["onnxruntime/O0"])
    assert check.ok and "d" in {v.name for v in check.values} > {"y"}
    assert "m" not in {v.name for v in check.values}


def test_an_initializer_that_is_an_input_and_read_by_nobody_stays_out():
    model = parsed(
        "(float[2] x, float[2] w, float[4] spare) => (float[2] y) { a = Add(x, w)  y = Tanh(a) }"
    )
    model.ir_version, model.opset_import[0].version = 3, 8
    arrays = {"w": np.ones(2, np.float32), "spare": np.ones(4, np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    check = nnfuzz.check_model(model, ["onnxruntime/O0"])
    assert check.ok and {value.name for value in check.values} == {"a", "y"}


def test_a_wide_envelope_is_told():
    model = parsed("(float[1, 9] x) => (float[1, 9] y) { a = Mul(x, k)  y = Softmax(a) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1e8), "k"))
    given = {"x": np.full((1, 9), 0.7, np.float32)}
    check = nnfuzz.check_model(model, ["onnxruntime/O0"], given, values=False)
    assert check.summary() == "right: all outputs on all 1 targets; y compared loosely"
    assert "all of it compared, 100% loosely" in str(check)


def test_sequences_and_texts_are_compared_element_by_element():
    model = parsed(
        "(string[2] t, float[3] x) => (seq(float[2]) s, string[2] u) { "
        "n = Constant<value = int64 {2}>()  s = SplitToSequence(x, n)  u = Identity(t) }"
    )
    check = nnfuzz.check_model(model, ["onnxruntime"], seed=1)
    assert check.ok and check.verdict == "agree"
    assert {o.name: o.type.partition("[")[0] for o in check.outputs} == {
        "u": "string",
        "len(s)": "int64",
        "s[0]": "float32",
        "s[1]": "float32",
    }
    assert all("onnx.reference" in output.agree for output in check.outputs)
    given = {"t": np.array(["longer", "b"]), "x": np.ones(3, np.float32)}
    assert nnfuzz.check_model(model, ["onnxruntime/O0"], given).ok


def test_guessed_inputs_that_a_compiler_runs_may_have_a_reference():
    model = parsed(
        "(float[2] x, int64 a, int64 n) => (float[m] y) { "
        "r = Range(a, n, a)  c = Cast<to = 1>(r)  y = Sin(c) }"
    )
    check = nnfuzz.check_model(model, ["onnxruntime"])
    assert check.ok and check.verdict == "right" and check.outputs[0].type != "float32[0]"
    assert check.notes[0].startswith("note: guessed inputs: ")


def test_a_loop_without_end_is_not_computed_by_onnx_reference():
    model = parsed(
        "(float[3] x) => (float[3] y, float[3] z) { n = Constant<value = int64 {1099511627776}>() "
        "t = Constant<value = bool {1}>()  z = Neg(x)  y = Loop(n, t, x) <body = b (int64 i, bool "
        "c, float[3] v) => (bool d, float[3] w) { d = Identity(c)  w = Sin(v) }> }"
    )
    assert {*nnfuzz.case_from_onnx(model).expected} == {"z"}


@pytest.mark.parametrize("code", [77, -1, 1000])
def test_dtypes_and_names_that_there_are_not_are_refused_in_a_line(code):
    unknown, named = (parsed("(float[2] x) => (float[2] y) { y = Relu(x) }") for _ in range(2))
    unknown.graph.input[0].type.tensor_type.elem_type = code
    named.graph.node[0].name = "a\nb"
    for model, why in ((unknown, f"'x' has the dtype {code}"), (named, "'a\\nb' has control")):
        with pytest.raises(nnfuzz.ModelError, match=why.replace("\\", "\\\\")) as caught:
            nnfuzz.check_model(model, ["onnxruntime"])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [7, 18, 32])
def test_data_that_does_not_fit_its_shape_is_refused_in_a_line(size):
    """ONNX's checker sees what is too short."""
    model = parsed("(float[4] x) => (float[4] y) { y = Add(x, w) }")
    weight = onnx.TensorProto(name="w", data_type=1, dims=[4], raw_data=bytes(size))
    model.graph.initializer.append(weight)
    with pytest.raises(nnfuzz.ModelError, match=r"tensor w is damaged|tensor name: w") as caught:
        nnfuzz.case_from_onnx(model)
    assert "\n" not in str(caught.value)


def test_a_negative_dimension_is_an_open_one():
    model = parsed("(float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert nnfuzz.check_model(model, ["onnxruntime/O0"]).ok


def test_without_targets_all_installed_compilers_run():
    from nnfuzz.library.checking import installed_compilers

    found = installed_compilers()
    assert "onnxruntime" in found
    assert not {"torch", "onnx-checker", "onnxslim", "exporter-dynamo"}.intersection(found)


def test_a_node_says_nothing_of_targets_that_do_not_run():
    right, idle = Computed("a O0", OutputState.RIGHT), Computed("b O0", "exception in import")
    assert _states(Output("y", "float32[2]", 1.0, computed=(right, idle)), ["b O0"]) == "right"


def test_each_data_set_is_a_call_of_one_program():
    model = parsed("(float[n, 3] x) => (float[n, 3] y) { a = Add(x, x)  y = Tanh(a) }")
    calls = [{"x": np.ones((n, 3), np.float32)} for n in (2, 4, 2)]
    stored = [{"y": np.tanh(2 * own["x"])} for own in calls[:2]] + [{"y": calls[2]["x"]}]
    targets = ["onnxruntime/O0", "stateful/O1,keeps=plan_of_the_first_size"]
    check = nnfuzz.check_model(model, targets, calls, expected=stored, plugins=[stateful.__file__])
    assert [output.name for output in check.outputs] == ["y", "y_at1", "y_at2"]
    assert "only at call 2" in str(check) and check.places[0].value == "a_at1"
    assert "the given outputs y_at2 are wrong" in check.summary()


def test_a_constant_that_depends_on_the_sizes_is_another_one_at_each_call():
    model = parsed(
        "(float[n] x) => (float[n] y) { s = Shape(x)  o = ConstantOfShape(s)  y = Add(x, o) }"
    )
    case = nnfuzz.case_from_onnx(model, [{"x": np.ones(n, np.float32)} for n in (2, 4, 2)])
    assert [array.shape for array in case.weights.values()] == [(2,), (4,), (2,)]
    assert nnfuzz.Oracle()(case, case.expected).ok


def test_behind_many_nodes_values_are_compared_closely_in_parts():
    steps = "".join(f"m{i} = MatMul(a{i}, w)  a{i + 1} = Sin(m{i})  " for i in range(30))
    model = parsed(f"(float[2, 8] a0) => (float[2, 8] y) {{ {steps} y = Mul(a30, a29) }}")
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    check = planted(model, "half", "m10")
    assert [place.value for place in check.places] == ["m10"] and check.outputs[0].loose == 1
    assert all(value.judged == 1 for value in check.values) and "values without a close" in str(
        check
    )
