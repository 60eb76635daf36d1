"""Graphs: their types, their views, and their sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import helper

from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.ir.dtypes import ALL, DType, held, is_floating, plain
from nnfuzz.ir.expr import Var
from nnfuzz.ir.features import Features, features
from nnfuzz.ir.graph import Graph, GraphError, Node, Value
from nnfuzz.ir.opset_imports import domain_version, imported_versions, operator_version
from nnfuzz.ir.sizes import (
    at_size,
    by_copy,
    copies,
    from_copies,
    join_copies,
    name_and_copy,
    operators,
)
from nnfuzz.ir.support_key import SupportKey, operators_in
from nnfuzz.ir.types import TensorType
from nnfuzz.ir.view import NO_GRAPH, GraphView, NodeView, ValueView
from tests.inputs.graphs import FLOAT, REGISTRY, build, op


def graph() -> Graph:
    vector = TensorType(DType.FLOAT32, (3,))
    return Graph(
        {n: Value(n, vector) for n in ("x", "y", "z")},
        [
            Node(REGISTRY.get("Neg")(), ("x",), ("y",)),
            Node(REGISTRY.get("Add")(), ("x", "y"), ("z",)),
        ],
        inputs=["x"],
        outputs=["z"],
    )


def test_a_sound_graph_verifies_and_survives_json():
    original = graph()
    original.verify()
    copy = Graph.from_json(original.to_json(), REGISTRY.get)
    copy.verify()
    assert copy.to_json() == original.to_json()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda g: g.nodes.reverse(), "before it is defined"),
        (lambda g: g.outputs.append("q"), "not computed"),
        (lambda g: g.inputs.append("x"), "listed twice"),
        (
            lambda g: g.values.update(z=Value("z", TensorType(DType.FLOAT32, (4,)))),
            "is declared",
        ),
        (lambda g: g.nodes.append(g.nodes[0]), "defined twice"),
        (
            lambda g: g.values.update(w=Value("w", TensorType(DType.BOOL, ()))),
            "without a definition",
        ),
    ],
)
def test_damage_is_named(damage, message):
    broken = graph()
    damage(broken)
    with pytest.raises(GraphError, match=message):
        broken.verify()


def test_an_unknown_schema_is_refused():
    with pytest.raises(GraphError, match="schema 99"):
        Graph.from_json({**graph().to_json(), "schema": 99}, REGISTRY.get)


def test_consumers_and_producers():
    g = graph()
    assert g.producer()["z"] is g.nodes[1]
    assert g.consumers()["x"] == g.nodes
    assert g.consumers()["z"] == []


# Types of tensors, with and without open dimensions.


def test_an_open_dimension_gets_its_size():
    n = Var("n", 1, 9)
    open_type = TensorType(DType.FLOAT32, (n, 2))
    assert open_type.rank == 2 and not open_type.is_concrete
    with pytest.raises(TypeError):
        _ = open_type.sizes
    known = open_type.concrete({n: 3})
    assert known.is_concrete and known.sizes == (3, 2) and known.elements == 6
    assert repr(known) == "float32[3, 2]"


def test_a_change_makes_another_type():
    scalar = TensorType(DType.INT64, ())
    assert scalar.elements == 1
    assert not scalar.same(scalar.with_dtype(DType.INT32))
    assert scalar.with_shape([4]).with_shape([]).same(scalar)


# A graph that can be read without PyTorch.


def test_a_vertex_is_operator_attributes_and_input_types():
    def vertex(attributes, shape):
        node = NodeView("Softmax", ("a",), ("b",), attributes)
        values = ValueView("a", "float32", tuple(shape)), ValueView("b", "float32", tuple(shape))
        return features(GraphView(values, (node,))).nodes[0].vertex

    assert vertex({"axis": 1}, [2, 3]) == vertex({"axis": 1}, [2, 3])
    assert len({vertex({"axis": 1}, [2, 3]), vertex({"axis": 0}, [2, 3]), vertex({}, [3, 2])}) == 3


def test_what_a_node_tells():
    node = NodeView("Concat", ("a", "b"), ("c",), {"axis": -1, "mode": "x", "pads": [0, 3]})
    a = ValueView("a", "float32", (2, 3))
    b = ValueView("b", "float32", ("N", "?"))
    c = ValueView("c", "float32", ())
    behind = NodeView("Abs", ("c",), ("d",))
    found = features(GraphView((a, b, c, ValueView("d", "float32")), (node, behind)))
    first, second = found.nodes
    assert (first.shapes, first.degree, first.rank) == ("2x3,Nx?", 2, 2)
    assert first.attributes == ("axis=negative", 'mode="x"', "pads=[0 more]")
    assert (second.shapes, second.degree, second.rank) == ("", 1, 0)
    assert found.operator_ranks() == {("Concat", 2), ("Abs", 0)}
    assert "Concat(float32,float32) axis=negative" in found.attribute_values()


# Versions of further domains that go with an opset of ONNX.


ML = "ai.onnx.ml"


@pytest.mark.parametrize(("opset", "version"), [(13, 2), (17, 3), (20, 4), (21, 5), (26, 5)])
def test_a_domain_of_onnx_has_the_version_of_the_same_release(opset, version):
    assert domain_version(ML, opset) == version
    assert domain_version("", opset) == opset
    assert domain_version("com.microsoft", opset) == 1


def test_an_operator_is_of_the_last_version_before_it_was_deprecated():
    assert operator_version("TreeEnsembleRegressor", ML, 20) == 4
    assert operator_version("TreeEnsembleRegressor", ML, 22) == 4
    assert operator_version("TreeEnsemble", ML, 22) == 5


def test_a_model_imports_a_version_in_which_none_of_its_operators_is_deprecated():
    used = [(ML, "Scaler"), (ML, "TreeEnsembleClassifier"), ("com.microsoft", "Gelu"), ("", "Add")]
    assert imported_versions(used, 22) == {"": 22, ML: 4, "com.microsoft": 1}
    assert imported_versions(used[:1], 22) == {"": 22, ML: 5}


# The keys of operator signatures and edges, and how they are written.


TEXTS = ["direct:Where(bool,int8)->int8", "Add(int8)->int8", "dynamo:Relu->Conv(float32)", "Exp"]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_written_is_read(text):
    assert str(SupportKey.parse(text)) == text
    assert read(SupportKey, text) == SupportKey.parse(text)


def test_the_parts_of_a_key():
    key = SupportKey.parse(TEXTS[0])
    assert key == SupportKey("direct", "Where", "(bool,int8)->int8")
    assert key.signature == SupportKey.of_signature("Where", ["bool", "int8"], "int8")
    assert str(key.any_dtypes) == "direct:Where" and str(key.signature.any_dtypes) == "Where"
    assert key.with_exporter("dynamo").exporter == "dynamo" and key.with_exporter("direct") is key


def test_edges_are_no_operator_signatures():
    assert [SupportKey.parse(text).is_edge for text in TEXTS] == [False, False, True, False]
    assert SupportKey.parse("Relu->Conv").is_edge


def test_keys_sort_as_they_are_written():
    keys = [*TEXTS, "Add(int8,int8)->int8", "AddMore(int8)->int8", "a:Add(int8)->int8"]
    assert list(map(str, sorted(map(SupportKey.parse, keys)))) == sorted(keys)


def test_operators_are_named_once():
    assert operators_in([*TEXTS[:2], "Add(bool)->bool"]) == {"Where", "Add"}


GRAPH = GraphView.from_json(
    {
        "values": [
            ["x", "float32", [2, 3]],
            ["w", "float32", [3]],
            ["h", "float32", [2, 3]],
            ["y", "float32", [2, 3]],
            ["z", "bool", [2, 3]],
        ],
        "nodes": [
            {"op": "Add", "attributes": {}, "inputs": ["x", "w"], "outputs": ["h"]},
            {"op": "Mul", "attributes": {}, "inputs": ["h", "h"], "outputs": ["y"]},
            {"op": "Less", "attributes": {}, "inputs": ["h", "y"], "outputs": ["z"]},
        ],
    }
)


def test_what_a_graph_consists_of():
    found = features(GRAPH)
    assert found.operators() == {"Add", "Mul", "Less"}
    assert ("Less", "float32,float32") in found.operator_dtypes()
    assert found.edges == ((0, 1), (0, 2), (1, 2))
    assert found.operator_edges() == {("Add", "Mul"), ("Add", "Less"), ("Mul", "Less")}
    assert len(found.vertices()) == 3
    assert read(Features, as_json(found)) == found


def test_triples_are_chains_of_three():
    graph = features(GRAPH)
    assert graph.operator_triples() == {("Add", "Mul", "Less")}


# Every dtype is the same thing in NumPy, ONNX and PyTorch.


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
def test_libraries_agree_on_the_type(dtype):
    assert helper.tensor_dtype_to_np_dtype(dtype.onnx) == dtype.numpy
    assert DType.of(dtype.numpy) is DType.of(dtype.value) is dtype
    assert dtype.carried or DType.of(dtype.torch) is dtype
    kinds = [dtype.is_bool, dtype.is_int, dtype.is_float]
    assert kinds.count(True) == 1 and is_floating(np.zeros(2, dtype.numpy)) is dtype.is_float


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_float and not d.carried])
def test_precision_is_pytorchs(dtype):
    info = torch.finfo(dtype.torch)
    assert dtype.unit_roundoff == info.eps / 2
    assert dtype.limits == (info.min, info.max)


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
def test_limits_are_values_of_the_type(dtype):
    array = np.array(dtype.limits).astype(dtype.numpy)
    assert plain(array).tolist() == list(dtype.limits)
    assert plain(array).dtype.isbuiltin == 1


def test_all_dtypes_are_in_the_widest_group():
    assert set(ALL) == set(DType)


@pytest.mark.parametrize(
    "numbers, dtype, kept",
    [
        (np.array([2**31 - 1, 2**31, -1]), DType.INT32, [True, False, True]),
        (np.array([2**63, 7], np.uint64), DType.INT64, [False, True]),
        (np.array([2**63, 7], np.uint64), DType.UINT32, [False, True]),
        (np.array([2**24, 2**24 + 1]), DType.FLOAT32, [True, False]),
        (np.array([0.5, 0.1, np.inf]), DType.FLOAT32, [True, False, True]),
        (np.array([1.5, 1.001], np.float32), DType.BFLOAT16, [True, False]),
    ],
)
def test_which_numbers_a_dtype_holds(numbers, dtype, kept):
    assert held(numbers, dtype).tolist() == kept


def scaled(rows: int) -> Graph:
    types = {"x": FLOAT.with_shape((rows, 4)), "w": FLOAT.with_shape((4,))}
    return build(types, [("v", op("Relu"), "x"), ("y", op("Mul"), ["v", "w"])], weights=["w"])


def without_names(graph: Graph) -> dict:
    """The JSON form, whatever the order of the values."""
    data = graph.to_json()
    return {**data, "values": sorted(data["values"])}


def test_copies_share_their_weights_and_nothing_else():
    whole = join_copies([scaled(3), scaled(5), scaled(1)])
    whole.verify()
    assert whole.inputs == ["x", "x_at1", "x_at2"]
    assert whole.weights == ["w"]
    assert whole.outputs == ["y", "y_at1", "y_at2"]
    assert [whole.type(name).shape[0] for name in whole.outputs] == [3, 5, 1]


def test_joined_copies_come_apart_again():
    parts = [scaled(3), scaled(5)]
    assert [without_names(g) for g in copies(join_copies(parts))] == [
        without_names(g) for g in parts
    ]
    assert [without_names(g) for g in copies(scaled(2))] == [without_names(scaled(2))]


def test_prescribed_weights_stay_prescribed():
    graph = scaled(3)
    graph.prescribed["w"] = (1.0, 2.0)
    whole = join_copies([graph, scaled(5)])
    assert whole.prescribed == {"w": (1.0, 2.0)}
    assert copies(whole)[0].prescribed == {"w": (1.0, 2.0)}


def test_weights_of_another_size_are_refused():
    other = scaled(3)
    wide = TensorType(FLOAT.dtype, (1,))
    other.values["w"] = type(other.values["w"])("w", wide)
    with pytest.raises(GraphError, match="the weight w is"):
        join_copies([scaled(3), other])


def test_names_and_arrays_by_copy():
    assert name_and_copy(at_size("v3", 2)) == ("v3", 2)
    assert name_and_copy("v3") == ("v3", 0)
    parts = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert by_copy(from_copies(parts)) == parts
    assert by_copy({"a": 1}) == [{"a": 1}]


def test_operators_are_counted_once():
    assert operators(join_copies([scaled(3), scaled(5)]).view()) == 2
    assert operators(scaled(3).view()) == 2
    assert operators(NO_GRAPH) == 0
