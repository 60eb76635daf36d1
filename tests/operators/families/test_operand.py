"""Integers that shape a result mean the same in whatever way the model writes them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import emit_model
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()
FORMS = ("initializer", "constant", "shape", "shapes")


def values(**shapes):
    return {n: Value(n, TensorType(DType.FLOAT32, shape)) for n, shape in shapes.items()}


def written(form, opset=20):
    """x -> Relu -> y; z -> Reshape to sizes of x and other numbers -> out."""
    relu = Node(REGISTRY.get("Relu")(), ("x",), ("y",))
    reshape = REGISTRY.get("Reshape")(shape=(3, 5, 8), inferred=-1, operand=form)
    nodes = [relu, Node(reshape, ("z",), ("out",))]
    known = values(x=(3, 5), y=(3, 5), z=(4, 30), out=(3, 5, 8))
    return emit_model(Graph(known, nodes, ["x", "z"], [], ["y", "out"]), {}, opset)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("opset", [13, 20])
def test_every_form_is_valid_and_means_the_same(form, opset):
    model = written(form, opset)
    onnx.checker.check_model(model, full_check=True)
    fed = {"x": np.ones((3, 5), np.float32), "z": np.arange(120, dtype=np.float32).reshape(4, 30)}
    _, out = ReferenceEvaluator(model).run(None, fed)
    assert np.array_equal(out, fed["z"].reshape(3, 5, 8))


def test_shapes_are_read_of_earlier_values_only_where_the_form_says_so():
    reads = {form: _read_by_shape(written(form)) for form in FORMS}
    assert reads["initializer"] == reads["constant"] == set()
    assert reads["shape"] == {"z"}
    assert reads["shapes"] & {"x", "y"}


def test_a_number_beyond_every_size_stays_a_constant():
    op = REGISTRY.get("Slice")
    far = op(axes=(0,), steps=(1,), starts=(1,), ends=(4,), style="beyond", operand="shape")
    graph = Graph(values(x=(4,), y=(3,)), [Node(far, ("x",), ("y",))], ["x"], [], ["y"])
    model = emit_model(graph, {}, 20)
    held = [onnx.numpy_helper.to_array(t).tolist() for t in model.graph.initializer]
    assert [2**63 - 1] in held
    (y,) = ReferenceEvaluator(model).run(None, {"x": np.arange(4, dtype=np.float32)})
    assert y.tolist() == [1, 2, 3]


def test_a_case_from_before_the_forms_is_read():
    op = REGISTRY.get("Tile").from_json({"repeats": [2, 1]})
    assert op.operand == "initializer"


def _read_by_shape(model):
    return {node.input[0] for node in model.graph.node if node.op_type == "Shape"}
