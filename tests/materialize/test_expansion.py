"""Control flow and functions of foreign models as the operators that they amount to."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, parser

from nnfuzz.compare.envelope import envelopes
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.emit import emit_model
from nnfuzz.materialize.importing import ImportedModel, import_onnx, rename
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()
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
