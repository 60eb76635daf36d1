"""ONNX models are read as graphs, or the reason is told."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnx.reference
import pytest
import torch
from onnx import numpy_helper, parser

import nnfuzz
from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engine import Symbolic
from nnfuzz.inputs.search import Found, search
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.emit import emit_model
from nnfuzz.materialize.importing import import_onnx, opaque_nodes, rename
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()
FAMILIAR = "Add Mul Relu Concat Conv Flatten Gemm MatMul MaxPool ReduceMean Reshape Slice Softmax"


def read(text: str, registry: OpRegistry = REGISTRY, opset: int = 20) -> Graph:
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')
    return import_onnx(model, registry, opset).graph


def test_weights_of_one_value_keep_it_and_others_are_free():
    graph = read(
        """m (float[2] x) => (float[2] y)
        <float[2] halves = {0.5, 0.5}, float[2] other = {1.0, 3.0}> {
            h = Mul(x, halves)
            y = Add(h, other)
        }"""
    )
    assert list(graph.prescribed.values()) == [(0.5, 0.5)]
    assert len(graph.weights) == 2


def test_the_names_and_constants_of_the_model_are_known():
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]> m (float[2] data) => (float[2] result)
        <float[2] other = {1.0, 3.0}> { result = Add(data, other) }"""
    )
    imported = import_onnx(model, REGISTRY, 20)
    graph = imported.graph
    assert [imported.names[name] for name in graph.values] == ["data", "other", "result"]
    assert imported.constants["other"].tolist() == [1.0, 3.0]
    rename(graph, imported.names)
    graph.verify()
    assert (graph.inputs, graph.weights, graph.outputs) == (["data"], ["other"], ["result"])


def test_an_attribute_that_no_spec_has_keeps_the_node_opaque():
    graph = read(
        "m (float[1, 1, 2] x, float[1, 4, 2] w, float[1, 4, 1] r) => (float[1, 1, 1, 1] y) "
        "{ y = LSTM<hidden_size = 1, clip = 0.5>(x, w, r) }"
    )
    assert opaque_nodes(graph) == ["LSTM"]


def test_padding_that_the_standard_computes_is_read_as_it_is():
    graph = read(
        "m (float[1, 1, 4] x, float[1, 1, 3] w) => (float[1, 1, M] y) "
        '{ y = Conv<auto_pad = "SAME_LOWER">(x, w) }'
    )
    (node,) = graph.nodes
    assert (node.op.auto_pad, node.op.pads) == ("SAME_LOWER", (1, 1))


def test_our_own_models_come_back_as_they_were():
    registry = REGISTRY.select(FAMILIAR.split())
    config = admitted_by_schema(
        GenerateConfig(nodes=6, exporter="direct", motifs=0), registry.specs()
    )
    catalog, compared = Catalog(registry.specs(), config), 0
    for seed in range(12):
        graph = Symbolic(catalog, config).next(random.Random(seed)).graph
        found = search(graph, random.Random(seed))
        if not isinstance(found, Found):
            continue
        again = import_onnx(emit_model(graph, found.weights, 20), registry, 20).graph
        assert not opaque_nodes(again)
        assert [n.op.name for n in again.nodes] == [n.op.name for n in graph.nodes]
        compared += 1
    assert compared >= 10


def test_open_sizes_are_those_with_which_most_can_be_taken():
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]>
        m (float[N, C, H] x) => (float[N, M] y) <int64[2] shape = {-1, 12}> {
            r = Reshape(x, shape)
            y = MatMul(r, w)
        }"""
    )
    model.graph.initializer.append(onnx.helper.make_tensor("w", 1, (12, 5), [0.0] * 60))
    imported = import_onnx(model, REGISTRY, 20)
    assert set(imported.sizes) == {"N", "C", "H"} and not imported.lost
    assert imported.graph.type(imported.graph.inputs[0]).numel % 12 == 0


def test_arithmetic_on_shapes_gives_attributes_and_goes():
    graph = read(
        """m (float[N, 6] x) => (float[A, B, C] y)
        <int64 zero = {0}, int64[1] front = {0}, int64[2] tail = {3, -1}> {
            s = Shape(x)
            n = Gather(s, zero)
            m = Unsqueeze(n, front)
            shape = Concat<axis = 0>(m, tail)
            y = Reshape(x, shape)
        }"""
    )
    assert [node.op.name for node in graph.nodes] == ["Reshape"]
    assert graph.type(graph.outputs[0]).shape == (2, 3, 2)


def test_a_sub_graph_reads_outer_values_by_their_new_names():
    graph = read(
        """m (float[2] x, bool c) => (float[2] y) {
            h = Neg(x)
            r = If(c) <
                then_branch = a () => (float[2] t) { u = Relu(h) t = Neg(u) },
                else_branch = b () => (float[2] e) { e = Identity(h) }
            >
            y = Abs(r)
        }"""
    )
    assert [repr(node.op) for node in graph.nodes] == ["Neg", "Expanded<If>", "Abs"]
    model = emit_model(graph, {}, 20)
    onnx.checker.check_model(model, full_check=True)
    runner = onnx.reference.ReferenceEvaluator(model)
    data, flag = sorted(graph.inputs, key=lambda n: graph.type(n).dtype.is_bool)
    x = np.array([-1.0, 2.0], np.float32)
    assert runner.run(None, {data: x, flag: np.array(True)})[0].tolist() == [1, 0]
    assert runner.run(None, {data: x, flag: np.array(False)})[0].tolist() == [1, 2]


def test_what_nobody_computes_is_cut_out():
    imported = import_onnx(
        parser.parse_model(
            """<ir_version: 9, opset_import: ["" : 20]>
            m (float[1, 2, 6, 6] x, float[3, 5] rois) => (float[3, 2, 1, 1] z) {
                y = Relu(x)
                p = MaxRoiPool<pooled_shape = [1, 1]>(y, rois)
                z = Neg(p)
            }"""
        ),
        REGISTRY,
        20,
    )
    assert [kind for kind, _ in imported.lost] == ["MaxRoiPool"]
    assert "onnx.reference does not compute it" in imported.lost[0][1]
    assert [node.op.name for node in imported.graph.nodes] == ["Relu", "Neg"]


def test_inputs_that_decide_on_shapes_become_constants():
    graph = read(
        """m (float[2, 3, 4] x, int64[1] axes, int64[2] shape) => (float[4, 3] y) {
            r = ReduceSum<keepdims = 0>(x, axes)
            y = Reshape(r, shape)
        }"""
    )
    assert len(graph.inputs) == 1 and not opaque_nodes(graph)
    assert graph.type(graph.outputs[0]).shape == (4, 3)


def test_parts_of_a_sequence_become_constants_that_add_up():
    graph = read(
        """m (float[7] x, int64[3] split) => (int64 n) {
            parts = SplitToSequence(x, split)
            n = SequenceLength(parts)
        }"""
    )
    assert len(graph.inputs) == 1 and not graph.weights
    (split,) = graph.nodes[0].op.graph.initializer
    assert onnx.numpy_helper.to_array(split).tolist() == [2, 2, 3]


def test_an_opaque_node_with_constants_runs_in_the_dtypes_of_the_model():
    graph = read(
        """m (float[2] x, bool c) => (float[2] y) {
            y = If (c) <
                then_branch = t () => (float[2] a) <float[2] two = {2, 2}> { a = Mul(x, two) },
                else_branch = e () => (float[2] b) { b = Neg(x) }
            >
        }"""
    )
    (node,) = graph.nodes
    for dtype in (torch.float32, torch.float64):
        given = {"float32": torch.ones(2, dtype=dtype), "bool": torch.tensor(True)}
        (result,) = node.op.torch(*[given[str(graph.type(n).dtype.value)] for n in node.inputs])
        assert result.dtype == dtype and result.tolist() == [2, 2]


def test_models_of_other_opsets_are_converted_or_taken_as_they_are():
    for version in (7, 11, 23):
        model = parser.parse_model(
            f"""<ir_version: 7, opset_import: ["" : {version}]>
            m (float[2, 3] x) => (float[2, 3] y) {{ s = Softmax<axis = 1>(x) y = Relu(s) }}"""
        )
        graph = import_onnx(model, REGISTRY, 20).graph
        assert [node.op.name for node in graph.nodes][-1] == "Relu"
        onnx.checker.check_model(emit_model(graph, {}, 20), full_check=True)


@pytest.mark.parametrize("opset", [13, 20])
def test_a_reshape_is_read_at_every_opset(opset):
    model = parser.parse_model(
        f'<ir_version: 7, opset_import: ["" : {opset}]> m (float[2, 3] x) => (float[3, 2] y) '
        "<int64[2] shape = {3, 2}> { y = Reshape(x, shape) }"
    )
    assert opaque_nodes(import_onnx(model, REGISTRY, opset).graph) == []


def test_a_transposed_convolution_is_not_read_with_padding_below_nothing():
    text = "m (float[1, 1, 4] x, float[1, 1, 1] w) => (float[1, 1, M] y) "
    graph = read(text + '{ y = ConvTranspose<auto_pad = "SAME_UPPER", strides = [2]>(x, w) }')
    assert opaque_nodes(graph) == ["ConvTranspose"]


@pytest.mark.parametrize("opset", [13, 17, 18])
def test_what_the_reference_evaluator_lacks_at_an_opset_is_read_by_its_spec(opset):
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : {opset}]> m (float[3, 4] x) => (float[3, 4] y)
        <float scale = {{0.05}}, int8 zero = {{3}}> {{
            q = QuantizeLinear(x, scale, zero)
            y = DequantizeLinear(q, scale, zero)
        }}"""
    )
    graph = import_onnx(model, REGISTRY, opset).graph
    assert [node.op.name for node in graph.nodes] == ["QuantizeLinear", "DequantizeLinear"]


def test_an_empty_part_of_a_shape_is_a_constant():
    graph = read(
        """m (float[2, 6] x) => (float[3, 4] y)
        <int64[1] two = {2}, int64[1] far = {99}, int64[2] sizes = {3, 4}> {
            shape = Shape(x)
            rest = Slice(shape, two, far)
            all = Concat<axis = 0>(sizes, rest)
            y = Reshape(x, all)
        }"""
    )
    assert [node.op.name for node in graph.nodes] == ["Reshape"]


def test_a_resize_to_sizes_has_the_ratios_of_sizes_as_its_scales():
    graph = read(
        """m (float[2, 3, 5, 4] x) => (float[2, 3, 7, 6] y) <int64[4] sizes = {2, 3, 7, 6}> {
            y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x,,,sizes)
        }"""
    )
    (node,) = graph.nodes
    x = torch.rand(2, 3, 5, 4, dtype=torch.float64)
    resized = torch.nn.functional.interpolate(x, (7, 6), mode="bilinear", align_corners=True)
    assert node.op.name == "ResizeLinear"
    torch.testing.assert_close(node.op.torch(x), resized)


def test_a_resize_whose_positions_rounding_moves_stays_opaque():
    graph = read(
        """m (float[1, 1, 8] x) => (float[1, 1, 14] y) <int64[3] sizes = {1, 1, 14}> {
            y = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric",
                nearest_mode = "floor">(x,,,sizes)
        }"""
    )
    assert opaque_nodes(graph) == ["Resize"]


CLASSIFIER = """<ir_version: 9, opset_import: ["" : 21, "ai.onnx.ml" : 3]>
m (float[2, 4] x) => (int64[2] label, float[2, 3] scores) {
    s = ai.onnx.ml.Scaler<offset = [0.5, 0.25, 0.0, 0.0], scale = [1.0, 2.0, 0.5, 1.0]>(x)
    label, scores = ai.onnx.ml.TreeEnsembleClassifier<
        nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [2, 0, 0],
        nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values = [2.5, 0.0, 0.0],
        nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0],
        class_treeids = [0, 0, 0, 0], class_nodeids = [1, 1, 2, 2], class_ids = [0, 1, 1, 2],
        class_weights = [0.75, 0.25, 0.5, 0.5], classlabels_int64s = [4, 5, 6]>(s)
}"""


def test_classical_models_are_read_in_versions_from_before_operators_were_deprecated():
    imported = import_onnx(parser.parse_model(CLASSIFIER), REGISTRY, 21)
    names = [node.op.name for node in imported.graph.nodes]
    assert names == ["ai.onnx.ml.Scaler", "ai.onnx.ml.TreeEnsembleClassifier"]
    trees = imported.graph.nodes[1].op.trees
    assert trees == (("BRANCH_LEQ", 2, 2.5, ((0, 0.75), (1, 0.25)), ((1, 0.5), (2, 0.5))),)
    again = emit_model(imported.graph, {}, 21)
    assert {e.domain: e.version for e in again.opset_import} == {"": 21, "ai.onnx.ml": 4}


def test_a_node_is_not_read_as_one_that_differs_at_a_number_of_its_attributes():
    """onnx.reference takes an Imputer of floats with integers to put in, which no spec has."""
    text = """<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g
    (float[2, 3] x) => (float[2, 3] y) {
        y = ai.onnx.ml.Imputer<replaced_value_int64 = 1, imputed_value_int64s = [7, 7, 1]>(x) }"""
    imported = import_onnx(parser.parse_model(text), REGISTRY, 18)
    assert [node.op.name for node in imported.graph.nodes] == ["Opaque"]


def test_the_size_of_features_at_computed_positions_is_known():
    text = """<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g
    (float[4, 3] x) => (int64[N, M] y) <int64[3] c = {5, 6, 7}> {
        k = ArgMax<axis = 1, keepdims = 0>(x)  y = ai.onnx.ml.ArrayFeatureExtractor(c, k) }"""
    graph = import_onnx(parser.parse_model(text), REGISTRY, 18).graph
    assert graph.nodes[-1].op.name == "ai.onnx.ml.ArrayFeatureExtractor"
    assert graph.type(graph.outputs[0]).shape == (1, 4)


def test_open_dimensions_of_different_names_have_different_sizes():
    text = """<ir_version: 8, opset_import: ["" : 18]> g
    (float[batch, words, batch] x) => (float[N, M, L] y) { y = Tanh(x) }"""
    graph = import_onnx(parser.parse_model(text), REGISTRY, 18).graph
    assert graph.type(graph.outputs[0]).shape == (2, 3, 2)


def test_a_zero_point_of_int32_is_none():
    """The bias of a quantised model; onnx.reference has no DequantizeLinear before opset 19."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    m (float[2, 2] x) => (float[2, 2] y)
    <int32[2] bias = {3, -4}, float scale = {0.5}, int32 zero = {0}> {
        b = DequantizeLinear(bias, scale, zero)  y = Add(x, b)
    }"""
    graph = import_onnx(parser.parse_model(text), REGISTRY, 17).graph
    assert [node.op.name for node in graph.nodes] == ["DequantizeLinear", "Add"]
    assert len(graph.nodes[0].inputs) == 2


def test_a_large_convolution_may_leave_its_kernel_shape_out():
    text = """m (float[2, 16, 16, 16] x, float[16, 16, 3, 3] w) => (float[2, 16, 16, 16] y) {
        y = Conv<pads = [1, 1, 1, 1]>(x, w) }"""
    assert [node.op.name for node in read(text).nodes] == ["Conv"]


@pytest.mark.parametrize("places", [np.array([1, 5]), np.array([[0, 1], [1, 2]])])
def test_a_sparse_tensor_is_read_as_a_dense_one(places):
    text = "m (float[4, 2] x) => (float[4, 3] y) { y = MatMul(x, w) }"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')
    parts = numpy_helper.from_array(np.float32([3, 4]), "w"), numpy_helper.from_array(places)
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(*parts, [2, 3]))
    assert import_onnx(model, REGISTRY, 20).constants["w"].tolist() == [[0, 3, 0], [0, 0, 4]]


def test_what_is_not_computed_in_the_inferred_dtype_has_that_nevertheless():
    """onnx.reference makes integers of integers here."""
    text = """<ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml" : 4]>
    m (int64[2, 3] x) => (float[2, 3] y) { y = ai.onnx.ml.Scaler<offset = [1.0], scale = [0.5]>(x) }
    """
    graph = import_onnx(parser.parse_model(text), REGISTRY, 20).graph
    assert [node.op.name for node in graph.nodes] == ["ai.onnx.ml.Scaler"]
    assert graph.type(graph.outputs[0]).dtype.value == "float32"


def test_a_model_whose_results_follow_from_shapes_is_a_graph():
    graph = read(
        """m (float x) => (int64[0] y) <int64[1] begin = {0}, int64[1] end = {1}> {
            s = Shape(x)
            y = Slice(s, begin, end)
        }"""
    )
    assert [node.op.name for node in graph.nodes] == ["Shape", "Slice"]
    graph = read("m (int32[0, 3] x) => (int32[0, 3] y) { y = Abs(x) }")
    assert [node.op.name for node in graph.nodes] == ["Abs"]


def test_a_branch_may_yield_an_initializer_of_its_own():
    graph = read(
        """m (float[2] x) => (float[2] z) <bool c = {1}> {
            y = If (c) <then_branch = t () => (float[2] p) <float[2] p = {1.0, 2.0}> { },
                        else_branch = f () => (float[2] r) { r = Neg(x) }>
            z = Add(y, x)
        }"""
    )
    assert not opaque_nodes(graph)
    assert graph.nodes[0].op.torch(torch.zeros(2))[0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("m (float[2, 3] x) => (int64[2] y) { n = NonZero(x) y = Shape(n) }", ["NonZero"]),
        (
            """m (int64[3] x) => (int64 y) <int64 s = {0}, int64 d = {1}> {
                z = ReduceMax <keepdims = 0> (x)
                r = Range(s, z, d)
                y = ReduceSum <keepdims = 0> (r)
            }""",
            ["ReduceMax", "RangeUpTo"],
        ),
    ],
)
def test_nodes_around_a_value_of_unknown_size_are_one_operator(text, names):
    assert [node.op.name for node in read(text).nodes] == names


# Models that cannot be made static.


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("m (string[2] x) => (string[2] y) { y = Identity(x) }", "dtype that nnfuzz does not know"),
        ("m (float[2] x) => (int64[1, N] y) { y = NonZero(x) }", "y is not known before it runs"),
        ("m (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x) }", "y is no tensor"),
        ("m (float[4096, 4096] x) => (float[M, N] y) { y = Relu(x) }", "more than"),
    ],
)
def test_what_cannot_be_read_says_why(text, reason):
    with pytest.raises(OnnxImportError, match=reason):
        read(text)


def test_what_cannot_be_taken_is_cut_out():
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20, "mine" : 1]>
        m (float[2, 3] x) => (float[2, 3] y) <float[2, 3] b> {
            a = Relu(x)
            b = mine.Unheard(a)
            y = Tanh(b)
        }"""
    )
    imported = import_onnx(model, REGISTRY, 20)
    assert [node.op.name for node in imported.graph.nodes] == ["Relu", "Tanh"]
    assert len(imported.graph.inputs) == len(imported.graph.outputs) == 2
    assert [kind for kind, _ in imported.lost] == ["Unheard"]


@pytest.mark.parametrize("opset", [9, 13, 17])
def test_recurrent_cells_of_old_opsets_and_with_lengths_have_a_spec(opset):
    text = (
        f'<ir_version: 6, opset_import: ["" : {opset}]> m (float[3,2,8] x) => (float[3,1,2,6] y) '
        "{ y, h = GRU<hidden_size = 6, linear_before_reset = 1>(x, w, r, b, lengths) }"
    )
    model, rng = parser.parse_model(text), np.random.default_rng(0)
    shapes = {"w": (1, 18, 8), "r": (1, 18, 6), "b": (1, 36)}
    weights = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    weights["lengths"] = np.array([3, 1], np.int32)
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    case = nnfuzz.case_from_onnx(model)
    assert case.graph.operators == ("GRU",) and case.graph.nodes[0].attributes["lens"] == [2, 0]
    assert not case.expected["y"][1:, :, 1].any() and case.expected["y"][:, :, 0].all()
