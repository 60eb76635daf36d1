"""Nodes as opsets before 13 have them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import emit_model
from nnfuzz.materialize.older import exchanged_with_last
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()
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
