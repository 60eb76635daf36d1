"""Models of older opsets and models without composite operators mean the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser
from onnx.reference import ReferenceEvaluator

from nnfuzz.compare.envelope import envelopes
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import Emitter, emit_model, writable_part
from nnfuzz.materialize.importing import ImportedModel, import_onnx, rename
from nnfuzz.materialize.older import NotWritten, at_oldest_opset, exchanged_with_last
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from tests.inputs.graphs import REGISTRY

X = np.arange(24, dtype=np.float32).reshape(2, 1, 3, 4) / 7


def written(operator: str, opset: int, **attributes) -> tuple[onnx.ModelProto, np.ndarray]:
    """The checked model of an operator on X, and what PyTorch computes."""
    import torch

    op = REGISTRY.get(operator)(**attributes)
    type_ = TensorType(DType.FLOAT32, X.shape)
    (result,) = op.type_transfer(type_)
    values = {"x": Value("x", type_), "y": Value("y", result)}
    model = emit_model(Graph(values, [Node(op, ("x",), ("y",))], ["x"], [], ["y"]), {}, opset)
    onnx.checker.check_model(model, full_check=True)
    return model, np.asarray(op.torch(torch.from_numpy(X)))


@pytest.mark.parametrize("opset", (11, 12))
@pytest.mark.parametrize(
    "operator, attributes",
    [("Squeeze", {"axes": (1,)}), ("Unsqueeze", {"axes": (0, 2)})],
)
def test_constant_operands_become_attributes(operator, attributes, opset):
    model, expected = written(operator, opset, **attributes)
    (node,) = model.graph.node
    assert len(node.input) == 1 and list(node.attribute[0].ints) == list(attributes["axes"])
    assert not model.graph.initializer
    (found,) = ReferenceEvaluator(model).run(None, {"x": X})
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis, operators", [(1, 3), (-1, 1), (3, 1), (-4, 3)])
def test_what_worked_on_all_axes_gets_its_axis_last(axis, operators):
    model, _ = written("Softmax", 12, axis=axis)
    assert len(model.graph.node) == operators
    (softmax,) = [node for node in model.graph.node if node.op_type == "Softmax"]
    assert [a.i % X.ndim for a in softmax.attribute] == [X.ndim - 1]
    assert len(written("Softmax", 13, axis=axis)[0].graph.node) == 1


def test_the_permutation_undoes_itself():
    assert exchanged_with_last(-1, 3) is exchanged_with_last(2, 3) is None
    order = exchanged_with_last(0, 3)
    assert order == [2, 1, 0] and [order[i] for i in order] == [0, 1, 2]


F32 = TensorType(DType.FLOAT32, X.shape)
VECTOR = TensorType(DType.FLOAT32, (4,))


def emitted(operator: str, opset: int, *operands: object, **attributes) -> onnx.NodeProto:
    """The node that is written for an operator on x, v (shorter) or constants."""
    emit = Emitter(opset, {"x": F32, "v": VECTOR})
    kinds = {float: DType.FLOAT32, int: DType.INT64}
    names = [
        operand
        if isinstance(operand, str)
        else emit.const(operand, kinds[type(np.ravel(operand)[0].item())])
        for operand in operands
    ]
    emit(operator, *names, **attributes)
    return emit.nodes[-1]


@pytest.mark.parametrize(
    "operator, opset, operands, attributes, expected",
    [
        ("Clip", 10, ("x", -1.0, 2.0), {}, {"min": -1.0, "max": 2.0}),
        ("Clip", 10, ("x", "", 2.0), {}, {"max": 2.0}),
        ("Pad", 10, ("x", [0, 0, 1, 0] * 2, 0.5), {}, {"pads": [0, 0, 1, 0] * 2, "value": 0.5}),
        ("Slice", 9, ("x", [1], [3], [2], [1]), {}, {"starts": [1], "ends": [3], "axes": [2]}),
        ("TopK", 9, ("x", [2]), {"axis": -1, "largest": 1}, {"k": 2, "axis": 3}),
        ("MaxPool", 7, ("x",), {"dilations": [1, 1], "ceil_mode": 0}, {}),
        ("Unsqueeze", 10, ("x", [-1, 0]), {}, {"axes": [5, 0]}),
    ],
)
def test_nodes_below_opset_11(operator, opset, operands, attributes, expected):
    """Operands are attributes, axes count from the front, later attributes are left out."""
    node = emitted(operator, opset, *operands, **attributes)
    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert (found, list(node.input)) == (expected, ["x"])


@pytest.mark.parametrize(
    "operator, opset, operands, attributes, reason",
    [
        ("AveragePool", 9, ("x",), {"ceil_mode": 1}, "no ceil_mode"),
        ("TopK", 10, ("x", [2]), {"largest": 0}, "no largest"),
        ("Round", 10, ("x",), {}, "has no Round"),
        ("Upsample", 10, ("x", 2.0), {}, "takes no"),
        ("Scan", 8, ("x", "v"), {}, "something else"),
        ("Sum", 7, ("x", "v"), {}, "does not broadcast"),
        ("Clip", 10, ("x", 2.0, 1.0), {}, "bounds"),
        ("Slice", 9, ("x", [0], [3], [2], [2]), {}, "no steps"),
        ("Gemm", 10, ("x", "x"), {}, "no 2 inputs"),
    ],
)
def test_what_an_old_opset_cannot_say(operator, opset, operands, attributes, reason):
    with pytest.raises(NotWritten, match=reason):
        emitted(operator, opset, *operands, **attributes)


def test_a_node_without_a_form_is_cut_off():
    ops = [REGISTRY.get(name)() for name in ("Relu", "Round", "Neg")]
    values = {name: Value(name, F32) for name in "abcd"}
    nodes = [Node(op, (one,), (other,)) for op, one, other in zip(ops, "abc", "bcd")]
    graph = Graph(values, nodes, ["a"], [], ["d"])
    assert writable_part(graph, 11) is graph
    part = writable_part(graph, 10)
    part.verify()
    assert part.nodes == [nodes[0], nodes[2]]
    assert (part.inputs, part.outputs) == (["a", "c"], ["d", "b"])
    assert not writable_part(Graph(values, nodes[1:2], ["b"], [], ["c"]), 10).nodes


MANY = (
    *("Relu", "Add", "Clip", "Pad", "Softmax", "ReduceSum", "Gemm", "Conv", "TopK", "Slice", "Max"),
    *("AveragePool", "MaxPool", "Concat", "Squeeze", "Split", "Cast", "Less", "Round", "Gather"),
)


@pytest.mark.parametrize("opset", [7, 10])
def test_generated_models_of_old_opsets_are_valid(opset):
    producer = Producer(3, CaseConfig(exporter="direct", opset=opset, nodes=6, operators=MANY))
    cases = [producer.produce(index) for index in range(8)]
    made = [case for case in cases if isinstance(case, TestCase)]
    assert len(made) > 5
    for case in made:
        onnx.checker.check_model(onnx.load_model_from_string(case.model), full_check=True)


# Models are declared for the oldest opset at which they say the same.


def model(*nodes, opset=26, domain=""):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph(list(nodes), "g", [x], [y])
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=13).SerializeToString()


def branch():
    y = helper.make_tensor_value_info("z", TensorProto.FLOAT, [2])
    return helper.make_graph([helper.make_node("Gelu", ["x"], ["z"])], "b", [], [y])


@pytest.mark.parametrize(
    ("nodes", "opset", "ir_version"),
    [
        ([helper.make_node("Relu", ["x"], ["y"])], 14, 7),
        ([helper.make_node("Erf", ["x"], ["y"])], 13, 7),
        ([helper.make_node("Gelu", ["x"], ["y"])], 20, 9),
    ],
)
def test_the_newest_operator_decides(nodes, opset, ir_version):
    found = onnx.load_model_from_string(at_oldest_opset(model(*nodes)))
    assert [entry.version for entry in found.opset_import] == [opset]
    assert found.ir_version == ir_version
    onnx.checker.check_model(found)


def test_operators_inside_of_others_count():
    cond = helper.make_node("Constant", [], ["c"], value_int=1)
    cast = helper.make_node("Cast", ["c"], ["d"], to=TensorProto.BOOL)
    taken = helper.make_node("If", ["d"], ["y"], then_branch=branch(), else_branch=branch())
    whole = model(cond, cast, taken, opset=22)
    found = onnx.load_model_from_string(at_oldest_opset(whole))
    assert found.opset_import[0].version == 21  # of Constant, Cast and If
    gelu = onnx.load_model_from_string(at_oldest_opset(model(*branch().node, opset=22)))
    assert gelu.opset_import[0].version == 20


@pytest.mark.parametrize("kept", [model(helper.make_node("Relu", ["x"], ["y"]), opset=14)])
def test_what_is_old_enough_stays(kept):
    assert at_oldest_opset(kept) == kept


def test_what_has_operators_of_others_stays():
    node = helper.make_node("Mine", ["x"], ["y"], domain="mine")
    kept = model(node, domain="mine")
    assert at_oldest_opset(kept) == kept


# Control flow and functions of foreign models as the operators that they amount to.


DICE = np.random.default_rng(0)


def read(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')


CHOOSING = read("""
choosing (float[3, 4] x, bool c) => (float[3, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
    y = If (c) <
        then_branch = small () => (float[3, 2] a) { half = Cast <to = 10> (x)
            wide = Cast <to = 1> (half)  a = MatMul (wide, w) },
        else_branch = large () => (float[3, 2] b) { k = Constant <value_ints = [1, 3]> ()
            p = Gather <axis = 1> (x, k)  b = Relu (p) }
    >
}""")
COUNTING = read("""
counting (float[3] x) => (float[3] last, float[4, 3] all)
    <int64 n = {6}, bool go = {1}> {
    last, all = Loop (n, go, x) <body = turn (int64 i, bool g, float[3] s)
        => (bool more, float[3] t, float[3] u) {
            three = Constant <value_int = 3> ()  more = Less (i, three)
            f = Cast <to = 1> (i)  t = Add (s, f)  u = Mul (t, t) }>
}""")
BOUNDED = read("""
bounded (float[2, 5] x) => (float[2, 5] y) <float low = {-0.5}, float[1] high = {0.5}> {
    y = Clip (x, low, high)
}""")
MODELS = {"If": CHOOSING, "Loop": COUNTING, "Clip": BOUNDED}


def imported(name: str) -> tuple[Graph, ImportedModel]:
    found = import_onnx(MODELS[name], REGISTRY, 20)
    return found.graph, found


def arrays(graph: Graph, found: ImportedModel) -> dict[str, np.ndarray]:
    drawn = {}
    for name in graph.inputs:
        type_ = graph.type(name)
        values = DICE.normal(size=type_.shape)
        drawn[name] = np.asarray(values).astype(type_.dtype.numpy)
    weights = {name: found.constants[found.names[name]] for name in graph.weights}
    return {**drawn, **weights}


@pytest.mark.parametrize("name", MODELS)
def test_everything_is_compared_and_onnx_reference_is_right(name):
    graph, found = imported(name)
    assert [type(node.op).__name__ for node in graph.nodes] == ["Expanded"]
    for _ in range(3):
        params = arrays(graph, found)
        bounds = envelopes(graph, params)
        fed = {found.names[n]: params[n] for n in graph.inputs}
        names = [found.names[n] for n in graph.outputs]
        wanted = onnx.reference.ReferenceEvaluator(MODELS[name]).run(names, fed)
        for own, right in zip((bounds[n] for n in graph.outputs), wanted, strict=True):
            lo, hi = own.admitted
            assert own.comparable.all() and ((lo <= right) & (right <= hi)).all()
            assert not ((lo <= right + 0.1) & (right + 0.1 <= hi)).any()


@pytest.mark.parametrize("name", MODELS)
def test_the_model_has_the_node_itself_and_the_graph_survives_as_text(name):
    graph, found = imported(name)
    params = arrays(graph, found)
    weights = {n: params[n] for n in graph.weights}
    model = emit_model(graph, weights, 20)
    assert [node.op_type for node in model.graph.node] == [name]
    onnx.checker.check_model(model, full_check=True)
    again = Graph.of(graph.view(), REGISTRY.get)
    again.verify()
    ours, theirs = envelopes(graph, params), envelopes(again, params)
    assert all(np.array_equal(ours[n].lo, theirs[n].lo) for n in graph.outputs)


def test_a_loop_whose_turns_are_unknown_is_refused_by_its_shape():
    model = onnx.ModelProto()
    model.CopyFrom(COUNTING)
    del model.graph.initializer[:]
    model.graph.input.add().CopyFrom(onnx.helper.make_tensor_value_info("n", TensorProto.INT64, []))
    model.graph.input.add().CopyFrom(onnx.helper.make_tensor_value_info("go", TensorProto.BOOL, []))
    del model.graph.output[1:]
    with pytest.raises(OnnxImportError, match="size of last is not known"):
        import_onnx(model, REGISTRY, 20)
    given = {"n": np.array(2), "go": np.array(True)}
    graph = import_onnx(model, REGISTRY, 20, given).graph
    assert [type(node.op) for node in graph.nodes] == [REGISTRY.expanded]


PICKED = read("""
picked (float[2, 3] x, float[2, 3] e) => (int64[4] y, float[2, 3] z) {
    r = Exp (e)  s = Add (x, r)
    a = NonZero (x)  b = Constant <value_ints = [-1]> ()  c = Reshape (a, b)
    n = Constant <value_ints = [0, 0, 0, 0]> ()  j = Concat <axis = 0> (c, n)
    zero = Constant <value_ints = [0]> ()  four = Constant <value_ints = [4]> ()
    k = Slice (j, zero, four)  y = Reshape (k, four)
    u = Unique (s)  v = Shape (u)  w = CastLike (v, x)  m = ReduceMax <keepdims = 0> (w)
    z = Add (s, m)
}""")


def test_what_chooses_among_exact_operands_is_exact_and_nothing_else_is():
    found = import_onnx(PICKED, REGISTRY, 20)
    rename(found.graph, found.names)
    x = np.array([[0, 2, 0], [0, 0, 3]], np.float32)
    bounds = envelopes(found.graph, {"x": x, "e": x, **{
        n: found.constants[n] for n in found.graph.weights
    }})  # fmt: skip
    assert bounds["y"].comparable.all() and bounds["y"].ref.tolist() == [0, 1, 1, 2]
    assert not bounds["z"].comparable.any()
