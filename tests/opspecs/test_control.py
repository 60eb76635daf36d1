"""Control flow, recurrence and sequences."""

from __future__ import annotations

import random

import numpy as np
import onnx
import torch
from nnfuzz.opspecs.activation import Relu
from nnfuzz.opspecs.arithmetic import Add
from nnfuzz.opspecs.control import If, Loop, Scan
from nnfuzz.opspecs.recurrent import GRU

from nnfuzz.check.instances import OpInstance
from nnfuzz.check.runtimes import one_node, run_reference
from nnfuzz.compare.envelope import Tracked, enclosed
from nnfuzz.compare.reference import PRECISIONS
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.body import Body, BodyStep
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.control import drawn_body
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ANY_RANGE
from tests.opspecs.samples import t

X = torch.tensor([1.0, -2.0, 3.0])
CONDITION = t(dtype=DType.BOOL)


def body(arguments, *steps, outputs):
    return {"arguments": arguments, "steps": list(steps), "outputs": list(outputs)}


NEGATE = body(2, ["Neg", {}, [0]], ["Add", {}, [2, 1]], outputs=[3])
DOUBLE = body(2, ["Add", {}, [0, 0]], outputs=[2])


def conditional(**changed):
    attributes = {"others": 1, "results": 1, "then_branch": NEGATE, "else_branch": DOUBLE}
    return If.from_json({**attributes, **changed})


def model_of(op, *types):
    model = one_node(OpInstance(op, types), op.type_transfer(*types), 18)
    onnx.checker.check_model(model, full_check=True)
    return model


def test_every_operator_of_a_body_lowers_to_the_opset_of_its_operator():
    assert all(inner.since <= op.since for op in (If, Loop, Scan) for inner in op.pool)


def test_a_branch_may_hold_a_loop():
    inner = loop(stacked=0, counted=0, others=0, body=body(1, ["Add", {}, [0, 0]], outputs=[1]))
    op = conditional(others=0, then_branch=body(1, ["Loop", inner.to_json(), [0]], outputs=[1]),
                     else_branch=body(1, ["Neg", {}, [0]], outputs=[1]))  # fmt: skip
    model = model_of(op, t(3), CONDITION)
    assert torch.equal(op.torch(X, torch.tensor(True))[0], 8 * X)
    found = run_reference(model, [X.numpy(), np.array(False)])
    np.testing.assert_array_equal(found[0], -X.numpy())


def test_an_open_condition_yields_the_hull_of_both_branches():
    maybe = Interval(torch.tensor(False), torch.tensor(True))
    exact = [Tracked(x, Interval(x, x)) for x in (X, X)]
    condition = Tracked(torch.tensor(True), maybe)
    refs = [torch.zeros(3)]
    inputs = [exact[0], condition, exact[1]]
    (interval,) = enclosed(conditional(), inputs, refs, [PRECISIONS[DType.FLOAT32]])
    assert torch.equal(interval.lo, torch.minimum(torch.zeros(3), 2 * X))
    assert torch.equal(interval.hi, torch.maximum(torch.zeros(3), 2 * X))


def test_a_branch_that_never_has_a_valid_value_is_not_feasible():
    hopeless = body(1, ["Abs", {}, [0]], ["Neg", {}, [1]], ["Sqrt", {}, [2]], outputs=[3])
    fine = body(1, ["Tanh", {}, [0]], outputs=[1])
    op = conditional(others=0, then_branch=hopeless, else_branch=fine)
    assert not op.feasible((1.0, 2.0), (0, 1))
    op = conditional(others=0, then_branch=fine, else_branch=fine)
    assert op.feasible((1.0, 2.0), (0, 1))
    assert -1 <= op.value_range((-9.0, 9.0), (0, 1))[0] < -0.99


def loop(**changed):
    attributes = {
        "trips": 3, "style": "count", "carried": 1, "others": 1, "counted": 1, "stacked": 1,
        "body": body(3, ["Add", {}, [0, 1]], ["Add", {}, [3, 2]], outputs=[4, 3]),
    }  # fmt: skip
    return Loop.from_json({**attributes, **changed})


def test_a_value_that_a_body_passes_on_is_computed_there():
    op = loop(stacked=0, carried=1, body=body(3, ["Neg", {}, [2]], outputs=[1]))
    (node,) = [n for n in model_of(op, t(3), t(3)).graph.node if n.op_type == "Loop"]
    graph = node.attribute[0].g
    made = [name for inner in graph.node for name in inner.output]
    assert all(output.name in made for output in graph.output)
    assert "Neg" in [inner.op_type for inner in graph.node]


def test_inputs_from_outside_can_be_left_out():
    op = loop(others=1, counted=0, body=body(2, ["Add", {}, [0, 1]], outputs=[2, 0]))
    fewer = op.without_input(1)
    assert fewer.others == 0 and torch.equal(fewer.torch(X)[0], 8 * X)
    assert op.without_input(0) is None and conditional().without_input(1) is None


def test_ranges_of_loops_hold_what_comes_out():
    body = Body(2, (BodyStep(Add(), (0, 1)), BodyStep(Relu(), (2,))), (3, 2))
    loop = Loop(others=0, trips=3, style="count", carried=1, counted=1, stacked=1, body=body)
    lo, hi = loop.value_range((-2.0, 3.0))
    assert lo <= -2.0 and hi >= 6.0
    results = loop.torch(torch.linspace(-2.0, 3.0, 6, dtype=torch.float64))
    assert all(bool(((y >= lo) & (y <= hi)).all()) for y in results)
    assert loop.value_range((0, 255)) == ANY_RANGE


def test_bodies_mostly_depend_on_their_arguments():
    """Not all do: the bounds of a Clip may cross."""
    type_, depending = TensorType(DType.FLOAT32, (2, 2)), 0
    for seed in range(40):
        body = drawn_body(Draw(random.Random(seed)), Loop.pool, type_, 2, 1)
        x = [torch.randn(64, 4, dtype=torch.float64) for _ in range(2)]
        (y,) = body.compose(lambda op, *xs: op.torch(*xs), x)
        depending += bool((y != y[0, 0]).any())
    assert depending > 36


def test_a_branch_may_yield_its_own_initializer_without_any_node():
    constant = body(2, ["Constant", {"seed": 1, "style": "initializer"}, [0]], outputs=[2])
    op = conditional(then_branch=constant)
    model = model_of(op, t(3), CONDITION, t(3))
    (branch,) = (a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
    assert not branch.node and branch.output[0].name == branch.initializer[0].name
    arrays = [X.numpy(), np.array(True), X.numpy()]
    (expected,) = op.torch(X, torch.tensor(True), X)
    np.testing.assert_array_equal(run_reference(model, arrays)[0], expected.numpy())


# RNN, GRU and LSTM.


PLAIN = {
    "direction": "bidirectional", "hidden_size": 6, "layout": 0, "lens": (), "clip": None,
    "given": ("B",), "activations": (), "explicit": 0,
}  # fmt: skip


def spec(cls, **changed):
    extra = {"linear_before_reset": 1} if cls is GRU else {}
    kept = tuple(range(1 + len(cls.states)))
    return cls(**{**PLAIN, "kept": kept, **extra, **changed})


def test_explicit_parameters_stand_in_the_order_of_the_functions_that_take_them():
    op = spec(GRU, activations=("HardSigmoid", "Tanh", "Sigmoid", "LeakyRelu"), explicit=1)
    attributes = op.onnx_attributes()
    assert attributes["activation_alpha"] == [0.25, 0.25]
    assert attributes["activation_beta"] == [0.375]
