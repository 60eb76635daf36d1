"""Edges of dtypes, and NaN that is carried along."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.backend.numeric import beyond
from nnfuzz.check import runtimes
from nnfuzz.check.instances import OpInstance
from nnfuzz.check.runtimes import Unavailable, run_reference
from nnfuzz.compare.edges import enveloped_at_edges
from nnfuzz.compare.verdict import compare, outside
from nnfuzz.inputs.edges import expected
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph
from tests.compare.test_envelope import native, samples
from tests.inputs.graphs import REGISTRY

X = np.array([[np.nan, np.inf, -np.inf, 1.0], [0.0, -0.0, 1e-42, 2.0]], np.float32)

ATTRIBUTES = {
    "ThresholdedRelu": {"alpha": 1.0},
    "LeakyRelu": {"alpha": 0.5},
    "Clip": {"min": -9, "max": 9},
}
"""Of operators that have no defaults."""


def bounds(build, *operators, x=X):
    """The envelopes of a chain of operators over x, and what PyTorch computes."""
    b = build(x=x)
    name = "x"
    for operator in operators:
        names = (name, "x") if operator in ("Add", "Sub", "Max") else (name,)
        name = b.add(operator, *names, **ATTRIBUTES.get(operator, {}))
    graph, params = b.done(name)
    assert beyond(params)
    return enveloped_at_edges(graph, params).envelopes, expected(graph, params)


def wrong(found, outputs, change):
    (name,) = outputs
    return compare(found, {name: change(outputs[name].copy())})


def put(place, value):
    def change(y):
        y[place] = value
        return y

    return change


@pytest.mark.parametrize("operators", [["Neg"], ["Neg", "Add"], ["Add", "Sub"], ["Sqrt"]])
def test_what_pytorch_computes_agrees(build, operators):
    found, outputs = bounds(build, *operators)
    assert not wrong(found, outputs, lambda y: y)


def test_nan_and_infinities_are_asked_for(build):
    found, outputs = bounds(build, "Neg")
    for place, value in (((0, 0), 0.0), ((0, 1), np.inf), ((0, 2), np.nan), ((1, 3), np.nan)):
        assert wrong(found, outputs, put(place, value))


def test_a_subnormal_number_may_be_flushed(build):
    found, outputs = bounds(build, "Neg")
    assert not wrong(found, outputs, put((1, 2), 0.0))


def test_a_comparison_with_nan_is_decided(build):
    found, outputs = bounds(build, "IsNaN")
    assert wrong(found, outputs, put((0, 0), False))


def test_what_onnx_does_not_decide_is_masked_with_all_behind_it(build):
    """ONNX and PyTorch make different numbers of NaN that is held against a threshold."""
    found, outputs = bounds(build, "ThresholdedRelu", "Neg")
    assert not wrong(found, outputs, put((0, 0), 7.0))
    assert wrong(found, outputs, put((1, 3), 7.0))


@pytest.mark.parametrize("operator", ["Max", "Min", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Sum"])
def test_nan_is_carried_by_maxima_activations_and_sums(build, operator):
    """NumPy, PyTorch and onnx.reference agree on it; of signs of zeros they say nothing."""
    found, outputs = bounds(build, operator, "Neg")
    assert not wrong(found, outputs, lambda y: y)
    assert wrong(found, outputs, put((0, 0), 7.0))


def test_a_reduction_carries_nan_into_its_own_results_only(build):
    for operator in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceLogSumExp"):
        b = build(x=np.array([[np.nan, 1.0], [2.0, 3.0]], np.float32))
        graph, params = b.done(b.add(operator, "x", axes=(1,), keepdims=0))
        (found,) = enveloped_at_edges(graph, params).envelopes.values()
        assert np.isnan(found.lo).tolist() == [True, False] and found.comparable.all()
        assert outside(found, np.array([1.0, 0.0], np.float32)).all()


def test_nan_is_asked_for_beside_what_nobody_knows(build):
    """The maximum of NaN is NaN whatever the other operand is."""
    x, y = np.array([np.nan, 1.0], np.float32), np.array([np.inf, np.inf], np.float32)
    b = build(x=x, y=y)
    graph, params = b.done(b.add("Max", "x", b.add("ThresholdedRelu", "y", alpha=1.0)))
    (found,) = enveloped_at_edges(graph, params).envelopes.values()
    assert found.comparable.tolist() == [True, False]


def test_other_operators_count_where_nothing_is_at_an_edge(build):
    found, _ = bounds(build, "ThresholdedRelu", x=np.array([[np.nan, 1.0]], np.float32))
    assert [e.comparable.tolist() for e in found.values()] == [[[False, True]]]
    b = build(x=X, y=np.array([1.0, 2.0], np.float32))
    b.add("Neg", "x")
    name = b.add("Erf", "y")
    graph, params = b.done(name)
    assert enveloped_at_edges(graph, params).envelopes[name].comparable.all()


def test_ieee_754_decides_on_its_own_functions(build):
    """Clause 9.2: exp(-inf) is 0, exp(inf) is inf, exp(NaN) is NaN."""
    edges = np.array([[np.nan, np.inf, -np.inf, 1.0]], np.float32)
    found, outputs = bounds(build, "Exp", x=edges)
    assert not wrong(found, outputs, lambda y: y)
    assert wrong(found, outputs, put((0, 0), 0.0))
    assert wrong(found, outputs, put((0, 1), 3.4e38))


def test_a_pole_of_what_was_rounded_is_not_decided(build):
    """A difference that is 0 here may be a little more where a product is rounded otherwise."""
    x, y = np.array([0.1, np.nan], np.float32), np.array([0.3, 1.0], np.float32)
    b = build(x=x, y=y, z=x * y)
    name = b.add("Reciprocal", b.add("Sub", b.add("Mul", "x", "y"), "z"))
    graph, params = b.done(name)
    found = enveloped_at_edges(graph, params).envelopes
    assert not found[name].comparable[0]
    b = build(x=np.array([0.0, np.nan], np.float32))
    name = b.add("Reciprocal", "x")
    graph, params = b.done(name)
    assert enveloped_at_edges(graph, params).envelopes[name].comparable.all()


def test_the_sign_of_a_zero_is_asked_for_where_it_is_decided(build):
    """IEEE 754-2019 clause 6.3, and selection, which keeps every bit; of functions it is open."""
    x = np.array([0.0, -0.0, 2.0], np.float32)
    for operators, place, either in (
        (["Neg"], 0, False),
        (["Neg", "Add"], 1, False),
        (["Sqrt"], 1, False),
        (["Tanh"], 1, True),
        (["Relu", "Neg"], 1, True),
    ):
        found, outputs = bounds(build, *operators, x=x)
        (y,) = outputs.values()
        assert bool(wrong(found, outputs, put(place, -y[place]))) is not either, operators


def test_a_selected_zero_keeps_its_sign_and_what_is_not_chosen_does_not_matter(build):
    b = build(
        c=np.array([True, False]),
        x=np.array([-0.0, np.nan], np.float32),
        y=np.array([1.0, 3.0], np.float32),
    )
    graph, params = b.done(b.add("Where", "c", b.add("Identity", "x"), "y"))
    (bounds_of,) = enveloped_at_edges(graph, params).envelopes.values()
    assert bounds_of.comparable.all()
    assert outside(bounds_of, np.array([0.0, 3.0], np.float32)).tolist() == [True, False]
    assert not outside(bounds_of, np.array([-0.0, 3.0], np.float32)).any()


def test_an_infinity_has_the_sign_of_the_zero_that_was_divided_by(build):
    b = build(x=np.array([1.0, 1.0], np.float32), y=np.array([0.0, -0.0], np.float32))
    graph, params = b.done(b.add("Div", "x", b.add("Neg", "y")))
    (found,) = enveloped_at_edges(graph, params).envelopes.values()
    assert found.lo.tolist() == found.hi.tolist() == [-np.inf, np.inf]
    assert found.comparable.all()


def test_nothing_is_asked_where_a_subnormal_number_may_be_flushed(build):
    """1 / 1e-42 is a number, or infinite where the operand is taken for 0, of whatever sign."""
    b = build(x=np.array([1e-42, np.nan], np.float32))
    graph, params = b.done(b.add("Reciprocal", "x"))
    (found,) = enveloped_at_edges(graph, params).envelopes.values()
    assert found.comparable.tolist() == [False, True]


def test_padding_has_a_sign_of_its_own(build):
    b = build(x=np.array([[-0.0, np.inf]], np.float32))
    graph, params = b.done(b.add("Pad", "x", mode="constant", pads=(0, 1, 0, 0), value=0))
    (found,) = enveloped_at_edges(graph, params).envelopes.values()
    assert not outside(found, np.array([[0.0, -0.0, np.inf]], np.float32)).any()
    wrong = outside(found, np.array([[-0.0, 0.0, np.nan]], np.float32))
    assert wrong.all()


def test_a_mean_whose_sum_may_overflow_is_masked(build):
    most = np.finfo(np.float32).max
    b = build(x=np.array([[np.nan, 0.0], [-most, -1.0]], np.float32))
    graph, params = b.done(b.add("ReduceMean", "x", axes=(1,), keepdims=0))
    (found,) = enveloped_at_edges(graph, params).envelopes.values()
    assert not found.any[0] and np.isnan(found.lo[0]) and found.any[1]


def test_the_exponent_zero_gives_one_of_nan(build):
    b = build(x=np.array([np.nan, 2.0], np.float32), y=np.array([-0.0, 1.0], np.float32))
    graph, params = b.done(b.add("Pow", "x", "y"))
    (found,) = enveloped_at_edges(graph, params).envelopes.values()
    assert found.any[0] or found.lo[0] <= 1.0 <= found.hi[0]


# Every operator that carries NaN: PyTorch and the reference implementation of ONNX do as well.


NEWEST = 26
NATIVE = (DType.FLOAT32, DType.FLOAT64)
"""Types that onnx.reference computes in."""
CARRYING = [
    spec.name
    for spec in REGISTRY.of_domains(())
    if spec.carries_nan and not spec.edges and set(spec.inputs[0].dtypes) & {*NATIVE}
]


def with_nan(graph: Graph, params: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The parameters with NaN in the middle of one of them."""
    array = np.array(params[name])
    array.flat[array.size // 2] = np.nan
    return {**params, name: array}


def of_the_standard(graph: Graph, params: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnx.reference computes at opset NEWEST. Raises: Unavailable."""
    (node,) = graph.nodes
    takes, gives = graph.types(graph.inputs), graph.types(graph.outputs)
    model = runtimes.one_node(OpInstance(node.op, takes), gives, NEWEST)
    return run_reference(model, [params[n] for n in graph.inputs])


@pytest.mark.parametrize("name", CARRYING)
def test_a_nan_that_is_asked_for_is_one_in_pytorch_and_in_onnx(name):
    for graph, params in samples(REGISTRY, name):
        for place in graph.inputs:
            if graph.type(place).dtype not in NATIVE or not params[place].size:
                continue
            given = with_nan(graph, params, place)
            found = enveloped_at_edges(graph, given).envelopes
            asked = [np.isnan(found[n].lo) & found[n].comparable for n in graph.outputs]
            own = native(graph, given)
            assert all(np.isnan(own[n][mask]).all() for n, mask in zip(graph.outputs, asked))
            try:
                theirs = of_the_standard(graph, given)
            except Unavailable:
                continue
            assert all(np.isnan(y[mask]).all() for y, mask in zip(theirs, asked)), given
