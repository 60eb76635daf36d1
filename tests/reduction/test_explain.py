"""What explains a wrong result: attributes, inputs and digits that are ignored, tested by NumPy."""

from dataclasses import replace

import numpy as np
from ml_dtypes import bfloat16

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.reduction.explain import explained, family_of
from nnfuzz.reduction.subject import Subject
from nnfuzz.triage.hypothesis import Claim, Hypothesis

REGISTRY = OpRegistry.load()
X = np.array([[0.1, 2.0, 0.7], [1.5, -0.3, 0.2]])


def subject(operator, *arrays, **attributes):
    op = REGISTRY.get(operator)(**attributes)
    names = [f"x{i}" for i in range(len(arrays))]
    types = [TensorType(DType.of(a.dtype), a.shape) for a in arrays]
    (result,) = op.type_transfer(*types)
    values = {n: Value(n, t) for n, t in zip([*names, "y"], [*types, result])}
    graph = Graph(values, [Node(op, tuple(names), ("y",))], names, [], ["y"])
    return Subject(graph, dict(zip(names, arrays)))


def consistent(made, outputs, told=()):
    held = list(map(Hypothesis.parse, told))
    return list(map(str, explained(made, outputs, held).explanations))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_an_attribute_that_is_ignored():
    x = X.astype(np.float32)
    made = subject("Softmax", x, axis=0)
    assert consistent(made, {"y": softmax(x, 1)}) == ["Softmax ignores axis"]
    assert consistent(made, {"y": softmax(x, 0)}) == []
    assert consistent(made, {"y": softmax(x, 1) * np.float32(1.01)}) == []


def test_an_input_that_is_ignored():
    x, bound = X.astype(np.float32), np.array(0.5, np.float32)
    made = subject("Mul", x, bound)
    assert consistent(made, {"y": x * 0}) == ["Mul takes input 1 for 0"]


def test_digits_that_are_lost():
    made = subject("Exp", X)
    found = consistent(made, {"y": np.exp(X.astype(np.float32)).astype(np.float64)})
    assert found == ["float64 is computed in float32"]


def test_an_approximation_is_not_taken_for_a_narrower_type():
    x = X.astype(np.float32)
    made = subject("Exp", x)
    near = np.exp(x).astype(np.float32) * np.float32(1 + 2**-10)
    assert consistent(made, {"y": near}) == []
    rounded = np.exp(x).astype(bfloat16).astype(np.float32)
    assert consistent(made, {"y": rounded}) == ["float32 is computed in bfloat16"]


def test_operands_that_are_rounded():
    a, b = X.astype(np.float32), X.T.astype(np.float32)
    made = subject("MatMul", a, b)
    y = a.astype(bfloat16).astype(np.float32) @ b.astype(bfloat16).astype(np.float32)
    assert consistent(made, {"y": y}) == ["MatMul rounds float32 to bfloat16"]


def test_other_inputs_refute_what_predicts_something_else():
    x = X.astype(np.float32)
    made, told = subject("Softmax", x, axis=0), ["Softmax ignores axis"]
    assert consistent(made, {"y": softmax(x, 1)}, told) == told
    assert consistent(made, {"y": softmax(x, 0)}, told) == []
    assert consistent(made, {"y": softmax(x, 0)}, ["Softmax returns 0"]) == ["Softmax returns 0"]
    assert consistent(made, {"y": softmax(x, 0)}, ["float32 is computed in bfloat16"]) == []


def test_how_all_elements_differ():
    x = np.array([3, -2, 5])
    made = subject("Sign", x)
    assert consistent(made, {"y": -np.sign(x)}) == ["Sign has the opposite sign"]
    assert consistent(made, {"y": np.sign(x) + 1}) == ["Sign is one too large"]
    assert consistent(made, {"y": x}) == ["Sign returns input 0"]
    assert consistent(made, {"y": np.zeros_like(x)}) == ["Sign returns 0"]
    assert consistent(made, {"y": np.array([1, -1, 0])}) == []


def test_operators_that_are_left_out():
    op, x = REGISTRY.get("Transpose"), np.arange(24.0).reshape(2, 3, 4)
    types = {"x": TensorType(DType.FLOAT64, x.shape)}
    nodes = [Node(op(perm=(1, 2, 0)), ("x",), ("y",)), Node(op(perm=(0, 2, 1)), ("y",), ("z",))]
    for node in nodes:
        (types[node.outputs[0]],) = node.op.type_transfer(types[node.inputs[0]])
    graph = Graph({n: Value(n, t) for n, t in types.items()}, nodes, ["x"], [], ["z"])
    made, y = Subject(graph, {"x": x}), x.transpose(1, 2, 0)
    assert consistent(made, {"z": x}) == ["Transpose returns input 0 of the Transpose before it"]
    assert consistent(made, {"z": y}) == [
        "Transpose returns input 0",
        "Transpose returns its result transposed",
    ]


def test_an_attribute_that_decides_on_the_shape():
    made = subject("ReduceMax", X, axes=(1,), keepdims=0)
    assert "ReduceMax ignores keepdims" in consistent(made, {"y": X.max(1, keepdims=True)})


def test_a_coarse_type_shows_in_every_result():
    made = subject("Exp", X.astype(np.float32))
    short = np.exp(X).astype(bfloat16).astype(np.float32)
    assert consistent(made, {"y": short}) == ["float32 is computed in bfloat16"]
    assert consistent(made, {"y": np.exp(X).astype(np.float32) * np.float32(1.001)}) == []


def test_another_dtype_is_its_own_explanation():
    made = subject("IsNaN", X)
    assert consistent(made, {"y": np.isnan(X).astype(np.int8)}) == ["IsNaN returns int8 for bool"]


def test_the_same_numbers_in_another_form():
    made = subject("GlobalMaxPool", np.arange(12.0).reshape(1, 3, 2, 2))
    assert consistent(made, {"y": np.array([[3.0, 7.0, 11.0]])}) == [
        "GlobalMaxPool loses axes of size 1"
    ]
    made = subject("Exp", X)
    assert consistent(made, {"y": np.exp(X).T}) == ["Exp returns its result transposed"]
    assert consistent(made, {"y": np.exp(X)[None]}) == ["Exp adds axes of size 1"]
    assert consistent(made, {"y": np.exp(X).reshape(3, 2)}) == []


def test_another_shape_without_a_reason():
    assert consistent(subject("Exp", X), {"y": X[:1]}) == []


def test_an_attribute_belongs_to_the_class_that_declares_it():
    names = ("Softmax", "LogSoftmax")
    claims = [Hypothesis(Claim.IGNORES, name, "axis") for name in names]
    one, other = (family_of(claim, subject(claim.subject, X, axis=0)) for claim in claims)
    assert one == other and (one.claim, one.detail) == (Claim.IGNORES, "axis")
    assert one.subject not in ("", *names)


def test_operators_whose_shapes_come_of_one_class_lose_axes_for_one_cause():
    names = ("ReduceL1", "ReduceLogSumExp")
    claims = [Hypothesis(Claim.AXES, name, "loses") for name in names]
    reduced = {"axes": (0,), "keepdims": 1}
    one, other = (family_of(claim, subject(claim.subject, X, **reduced)) for claim in claims)
    assert one == other and one.subject not in names
    alone = Hypothesis(Claim.AXES, "Transpose", "moves")
    assert family_of(alone, subject("Transpose", X, perm=(1, 0))) == alone


def test_a_switch_that_is_off_may_be_taken_for_one_that_is_on():
    x, router = np.ones((1, 1), np.float32), np.array([[1.0, 0.0]], np.float32)
    weights = np.array([[[1.0]], [[3.0]]], np.float32)
    options = {"alpha": 1.0, "beta": 0.0, "limit": None, "activation": "relu", "per": 1}
    named = "com.microsoft.MoE"
    made = subject(named, x, router, weights, weights, **options, normalize_routing_weights=0)
    assert consistent(made, {"y": x}) == [f"{named} ignores normalize_routing_weights"]


def test_infinities_are_explained_where_the_subject_is_at_edges():
    x = np.array([np.inf, -np.inf, np.inf, -np.inf], np.float32)
    made = replace(subject("Neg", x), edges=True)
    found = explained(made, {"y": x})
    assert "Neg returns input 0" in map(str, found.explanations)
    assert found.differences and not explained(made, {"y": -x}).differences


def test_another_dtype_does_not_hide_wrong_values():
    found = consistent(subject("IsNaN", X), {"y": np.ones(X.shape, np.int8)})
    assert found == ["IsNaN returns int8 for bool, with wrong values"]
