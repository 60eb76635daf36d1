"""Edits that planted compilers make: replaced nodes, and what collects the compilers."""

from __future__ import annotations

import onnx
from onnx import parser

from tests.planted.edits import Compilers, dtypes_of, into_identity, makers, replaced, shapes_of

MODEL = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> m (float[2, 3] x, int64[2] i) '
    "=> (float[2, 3] y, int64[2] j) { a = Sqrt(x)  y = Neg(a)  j = Neg(i) }"
)


def copy() -> onnx.ModelProto:
    return onnx.ModelProto.FromString(MODEL.SerializeToString())


def halves(x, y):
    """Takes -x for x - x."""
    return [("Sub", [x[0], x[0]], [y])]


def test_nodes_that_read_floats_are_replaced():
    model = copy()
    assert replaced(model, "Neg", halves)
    assert [node.op_type for node in model.graph.node] == ["Sqrt", "Sub", "Neg"]
    assert not replaced(copy(), "Exp", halves)


def test_a_model_is_described_by_names():
    assert makers(MODEL)["a"].op_type == "Sqrt"
    assert shapes_of(MODEL)["a"] == (2, 3)
    assert dtypes_of(MODEL)["j"] == onnx.TensorProto.INT64


def test_a_node_becomes_an_identity():
    model = copy()
    into_identity(model.graph.node[1], "x")
    assert (model.graph.node[1].op_type, [*model.graph.node[1].input]) == ("Identity", ["x"])


def test_compilers_are_collected_with_their_texts():
    compilers = Compilers()
    compilers.replacing("Neg")(halves)
    compilers.of("pairs")(lambda model: False)
    first, second = compilers
    assert (first.name, first.text) == ("halves", "Takes -x for x - x.")
    assert second.text == "pairs: " and first.apply(copy())
