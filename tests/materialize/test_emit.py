"""Models are written as PyTorch and ONNX hold them."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.sizes import join_copies
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import OPSETS, Emitter, SizeError, emit_called, emit_model
from nnfuzz.materialize.errors import OpsetError
from nnfuzz.materialize.exporters import all_exporters
from nnfuzz.materialize.importing import import_onnx, opaque_nodes
from nnfuzz.materialize.liveness import without_dead_nodes
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.materialize.names import redeclare, restore
from nnfuzz.materialize.opsets import CALLED_DIRECT
from nnfuzz.materialize.pinning import UNKNOWN_SIZE
from nnfuzz.materialize.validity import invalid
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry
from tests.inputs.graphs import FLOAT, build, op
from tests.materialize.test_importing import REGISTRY, read

SCALAR = TensorType(DType.FLOAT32, ())


def emitter(*names):
    return Emitter(18, dict.fromkeys(names, SCALAR))


class Twice(OpSpec):
    """Two outputs, or what `how` says."""

    name = "Twice"

    def __init__(self, how):
        self.how = how

    def onnx(self, emit, x):
        return self.how(emit, x)


@pytest.mark.parametrize(
    ("how", "types"),
    [
        (lambda e, x: (x, x), ["Identity", "Identity"]),
        (lambda e, x: (e("Neg", x),) * 2, ["Neg", "Identity", "Identity"]),
        (lambda e, x: (e("Neg", x), e.const(1, DType.FLOAT32)), ["Neg", "Identity"]),
        (lambda e, x: e("Split", x, outputs=2), ["Split"]),
    ],
)
def test_outputs_get_their_names_whatever_the_lowering_returns(how, types):
    emit = emitter("x", "a", "b")
    emit.lower(Node(Twice(how), ("x",), ("a", "b")))
    assert [n.op_type for n in emit.nodes] == types
    assert {"a", "b"} <= {o for n in emit.nodes for o in n.output}


def test_renaming_reaches_readers_inside_of_a_lowering():
    def how(emit, x):
        y = emit("Neg", x)
        return y, emit("Abs", y)

    emit = emitter("x", "a", "b")
    emit.lower(Node(Twice(how), ("x",), ("a", "b")))
    assert [(list(n.input), list(n.output)) for n in emit.nodes] == [
        (["x"], ["a"]),
        (["a"], ["b"]),
    ]


def test_emitted_names_avoid_those_of_the_graph():
    emit = emitter("Neg_1", "c_2")
    assert emit("Neg", "Neg_1") == "Neg_2"
    assert emit.const(1, DType.INT64) == "c_3"


def test_absent_inputs_and_attributes_leave_no_trace():
    emit = emitter("x")
    emit("Clip", "x", "", "", axis=None)
    emit("Clip", "x", "", "m")
    assert [list(n.input) for n in emit.nodes] == [["x"], ["x", "", "m"]]
    assert not emit.nodes[0].attribute


def relu_graph(dtype=DType.INT8):
    type_ = TensorType(dtype, (2,))
    values = {n: Value(n, type_) for n in ("x", "w", "s", "y")}
    registry = OpRegistry.load()
    nodes = [
        Node(registry.get("Add")(), ("x", "w"), ("s",)),
        Node(registry.get("Relu")(), ("s",), ("y",)),
    ]
    return Graph(values, nodes, ["x"], ["w"], ["y"])


@pytest.mark.parametrize("opset", range(12, OPSETS[1] + 1))  # 11 has no Max of int8
def test_every_opset_passes_the_full_check(opset):
    model = emit_model(relu_graph(), {"w": np.ones(2, np.int8)}, opset)
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == opset


@pytest.mark.parametrize("array", [np.ones(3, np.int8), np.ones(2, np.int16)])
def test_weights_must_have_their_type(array):
    with pytest.raises(ValueError, match="weight w is"):
        emit_model(relu_graph(), {"w": array})


def test_operators_name_the_opset_they_need():
    registry = OpRegistry.load()
    type_ = TensorType(DType.FLOAT32, (2,))
    values = {n: Value(n, type_) for n in "xy"}

    class Late(registry.get("Neg")):
        name = "Late"
        since = 20

    graph = Graph(values, [Node(Late(), ("x",), ("y",))], ["x"], [], ["y"])
    with pytest.raises(OpsetError, match="Late reaches the opsets 20"):
        emit_model(graph, {}, 18)


# Names of inputs and outputs come back, whatever the exporter made of them.


MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
g (bool c) => (float[1] k, float[1] y) <float[1] k = {2}> {
   y = If (c) <
      then_branch: graph = a () => (float[1] t) { t = Neg (k) },
      else_branch: graph = b () => (float[1] e) { e = Identity (k) }
   >
}
"""


def test_a_constant_that_is_an_output_is_still_read_in_branches():
    model = onnx.parser.parse_model(MODEL)
    assert restore(model.graph, ["c"], ["v1", "v2"])
    onnx.checker.check_model(model, full_check=True)
    found = ReferenceEvaluator(model).run(["v1", "v2"], {"c": np.array(True)})
    assert [float(x[0]) for x in found] == [2.0, -2.0]


def test_only_declarations_that_do_not_hold_are_replaced():
    model = onnx.parser.parse_model("g (float[N] x) => (float[N] y, float[2] z) { y = Abs (x) }")
    types = {name: TensorType(DType.FLOAT32, (3,)) for name in "yz"}
    assert redeclare(model.graph, types)
    y, z = (item.type.tensor_type.shape.dim[0] for item in model.graph.output)
    assert (y.dim_param, z.dim_value) == ("N", 3)
    assert not redeclare(model.graph, types)


# Nodes that no output needs are left out of reduced models.


def model(*nodes):
    """A model of nodes (operator, inputs, outputs, body) from x and the weight w to y."""
    made = [helper.make_node(op, ins, outs, **body) for op, ins, outs, body in nodes]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0])
    graph = helper.make_graph(made, "g", ends[:1], ends[1:], [weight])
    return helper.make_model(graph).SerializeToString()


def test_what_no_output_needs_goes_with_its_weights():
    dead = [("Add", ["x", "w"], ["d"], {}), ("Neg", ["d"], ["e"], {})]
    found = onnx.load_model_from_string(without_dead_nodes(model(*dead, ("Abs", ["x"], ["y"], {}))))
    assert [node.op_type for node in found.graph.node] == ["Abs"]
    assert not found.graph.initializer


def test_what_a_body_reads_stays_and_a_model_without_dead_nodes_is_the_same():
    made = helper.make_node("Neg", ["d"], ["b"])
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, [1])
    bodies = {
        f"{name}_branch": helper.make_graph([made], name, [], [out]) for name in ("then", "else")
    }
    nodes = [("Add", ["x", "w"], ["d"], {}), ("If", ["c"], ["y"], bodies)]
    whole = model(*nodes)
    assert without_dead_nodes(whole) == whole


# Attributes and tensors as messages of ONNX.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1),
        (-3, -3),
        (np.int64(4), 4),
        (0.5, 0.5),
        ("tanh", b"tanh"),
        (DType.FLOAT16, onnx.TensorProto.FLOAT16),
        ((1, 2), [1, 2]),
        ([1, 0.5], [1.0, 0.5]),
        (["a", "b"], [b"a", b"b"]),
        ([], []),
    ],
)
def test_attributes_have_the_type_of_their_value(value, expected):
    assert onnx.helper.get_attribute_value(protos.attribute("k", value)) == expected


@pytest.mark.parametrize("value", [object(), [1, "a"], {"a": 1}])
def test_attributes_without_an_onnx_form_are_refused(value):
    with pytest.raises(TypeError, match="attribute k"):
        protos.attribute("k", value)


@pytest.mark.parametrize("dtype", list(DType))
def test_constants_come_back(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype.numpy)
    back = onnx.numpy_helper.to_array(protos.constant_proto("c", array))
    assert back.dtype == dtype.numpy
    np.testing.assert_array_equal(back, array)


def test_ir_version_is_the_oldest_that_goes_with_the_opset():
    versions = [protos.ir_version(opset) for opset in range(OPSETS[0], OPSETS[1] + 1)]
    assert versions == sorted(versions)
    assert versions[0] == 4  # in version 3 all initializers had to be inputs
    assert versions[-1] <= protos.MAX_IR_VERSION


# Models that the checker refuses.


def quantized(output_dtype) -> bytes:
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=output_dtype)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, []) for n in ("x", "s")]
    out = helper.make_tensor_value_info("y", output_dtype, [])
    graph = helper.make_graph([node], "g", ends, [out])
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def test_a_dtype_that_an_attribute_may_not_have_makes_a_model_invalid():
    assert not invalid(quantized(TensorProto.INT8))
    assert "unsupported type tensor(float)" in invalid(quantized(TensorProto.FLOAT))


WEIGHTS = {"w": np.arange(4, dtype=np.float32)}


def flat(rows: int, inferred: int) -> Graph:
    """relu(x) * w as a vector."""
    types = {"x": FLOAT.with_shape((rows, 4)), "w": FLOAT.with_shape((4,))}
    shape = op("Reshape", shape=(rows * 4,), inferred=inferred)
    nodes = [("v", op("Relu"), "x"), ("y", op("Mul"), ["v", "w"]), ("z", shape, ["y"])]
    return build(types, nodes, weights=["w"])


def dims(values) -> list[list]:
    return [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values]


def test_the_dimension_that_differs_is_open():
    model = emit_called(join_copies([flat(3, 0), flat(5, 0)]), WEIGHTS, 20)
    onnx.checker.check_model(model, full_check=True)
    assert dims(model.graph.input) == [["n0", 4]]
    assert dims(model.graph.output) == [["n1"]]


def test_the_model_is_right_at_every_size():
    sizes = (3, 5, 1)
    whole = join_copies([flat(rows, 0) for rows in sizes])
    data = all_exporters()[CALLED_DIRECT].export(whole, WEIGHTS, {}, 20)
    model = ReferenceEvaluator(onnx.load_from_string(data))
    rng = np.random.default_rng(random.Random(0).getrandbits(32))
    for rows in sizes:
        x = rng.standard_normal((rows, 4), np.float32)
        expected = execute(flat(rows, 0), tensors({"x": x, **WEIGHTS}))["z"]
        np.testing.assert_array_equal(model.run(None, {"x": x})[0], expected.numpy())


def test_a_size_in_a_constant_is_refused():
    with pytest.raises(SizeError, match="a constant depends on the size"):
        emit_called(join_copies([flat(3, -1), flat(5, -1)]), WEIGHTS, 20)


def test_calls_of_one_size_share_the_model_of_one_call():
    model = emit_called(join_copies([flat(3, 0), flat(3, 0)]), WEIGHTS, 20)
    assert model == emit_model(flat(3, 0), WEIGHTS, 20)


def test_other_operators_are_refused():
    other = build(
        {"x": FLOAT.with_shape((5, 4)), "w": FLOAT.with_shape((4,))},
        [("v", op("Abs"), "x"), ("y", op("Mul"), ["v", "w"])],
        weights=["w"],
    )
    one = build(
        {"x": FLOAT.with_shape((3, 4)), "w": FLOAT.with_shape((4,))},
        [("v", op("Relu"), "x"), ("y", op("Mul"), ["v", "w"])],
        weights=["w"],
    )
    with pytest.raises(SizeError, match="the lowering depends on the size"):
        emit_called(join_copies([one, other]), WEIGHTS, 20)


# Sizes and small constants of models.


def test_defaults_and_constant_inputs_become_attributes():
    graph = read(
        """m (float[N, 4, 6] x) => (float[K, 2] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] far = {99}, int64[2] shape = {-1, 2}> {
            t = Transpose(x)
            s = Slice(t, one, far, zero)
            r = ReduceMean(s, zero)
            y = Reshape(r, shape)
        }"""
    )
    assert graph.type(graph.inputs[0]).shape == (UNKNOWN_SIZE, 4, 6)
    assert not graph.weights
    names = [node.op.name for node in graph.nodes]
    assert names == ["Transpose", "Slice", "ReduceMean", "Reshape"]
    assert graph.nodes[0].op.perm == (2, 1, 0)
    assert (graph.nodes[1].op.starts, graph.nodes[1].op.ends) == ((1,), (6,))
    assert graph.nodes[3].op.inferred == 0


# Graphs as modules of PyTorch.


def test_an_operator_without_a_spec_stays_opaque_with_its_constants():
    text = """m (float[2, 3] x) => (float[2, 2] y) <int64[1] k = {2}> {
        a = Relu(x)
        y, at = TopK(a, k)
    }"""
    graph = read(text, REGISTRY.select(["Relu"]))
    assert [repr(node.op) for node in graph.nodes] == ["Relu", "Opaque<TopK>"]
    again = Graph.from_json(graph.to_json(), REGISTRY.get)
    x = np.array([[1, -2, 3], [6, 5, 4]], np.float32)
    values = execute(again, tensors({again.inputs[0]: x}))
    assert values[again.outputs[0]].tolist() == [[3, 1], [6, 5]]
    model = emit_model(again, {}, 20)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Relu", "TopK"]
    assert opaque_nodes(import_onnx(model, REGISTRY.select(["Relu"]), 20).graph) == ["TopK"]


def test_what_a_graph_cannot_hold_stays_inside_of_an_opaque_node():
    graph = read(
        """m (float[2, 3] x, float[2, 3] z) => (float[2, 3] y, float[K] t) <int64 one = {1}> {
            s = SequenceConstruct(x, z)
            n = SequenceLength(s)
            a = SequenceAt(s, one)
            i = NonZero(a)
            c = ReduceSum<keepdims = 0>(i)
            f = Cast<to = 1>(c)
            g = Cast<to = 1>(n)
            b = Add(a, g)
            y = Add(b, f)
        }"""
    )
    kinds = [repr(node.op) for node in graph.nodes]
    assert kinds[0] == "Opaque<SequenceConstruct, SequenceLength, SequenceAt>"
    assert "Opaque<NonZero, ReduceSum>" in kinds
    model = emit_model(graph, {}, 20)
    onnx.checker.check_model(model, full_check=True)
    fed = {n: np.full((2, 3), v, np.float32) for n, v in zip(graph.inputs, (5.0, 1.0))}
    values = execute(graph, tensors(fed))
    # 1, the length 2, and the sum 9 of 6 positions
    assert values[graph.outputs[-1]].tolist() == [[12.0] * 3] * 2
