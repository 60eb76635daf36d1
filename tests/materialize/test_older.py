"""Nodes as opsets before 13 have them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import Emitter, emit_model, writable_part
from nnfuzz.materialize.older import NotWritten, exchanged_with_last
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

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
