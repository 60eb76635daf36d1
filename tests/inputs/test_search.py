from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.symbolic import Symbolic
from nnfuzz.inputs.descent import Descent
from nnfuzz.inputs.program import InvalidCause, Program, Violation, terms_hold
from nnfuzz.inputs.search import Found, NotFound, SearchConfig, search
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.carriers import array as carried
from nnfuzz.operators.carriers import settled, tensor
from nnfuzz.operators.operator import flatten
from tests.inputs.graphs import FLOAT, REGISTRY, build, chain, op

CONFIG = admitted_by_schema(GenerateConfig(nodes=10), REGISTRY.specs())
CATALOG = Catalog(REGISTRY.specs(), CONFIG)
NO_DRAWS = SearchConfig(restarts=1, draws=1, steps=80)


def found(graph: Graph, seed: int = 0, settings: SearchConfig | None = None) -> Found:
    result = search(graph, random.Random(seed), settings)
    assert isinstance(result, Found), result.reason
    return result


def check(graph: Graph, result: Found) -> None:
    """Run the graph anew and check every domain, every value and the outputs."""
    arrays = {**result.inputs, **result.weights}
    assert arrays.keys() == {*graph.inputs, *graph.weights}
    for name, array in arrays.items():
        assert array.shape == graph.type(name).shape
        assert array.dtype == graph.type(name).dtype.numpy
    values = {name: tensor(array) for name, array in arrays.items()}
    for node in graph.nodes:
        inputs = [values[name] for name in node.inputs]
        assert terms_hold(node.op.domain(*inputs)), node
        for name, result_ in zip(node.outputs, flatten(node.op.torch(*inputs))):
            assert not result_.is_floating_point() or bool(result_.isfinite().all()), node
            values[name] = settled(result_, graph.type(name).dtype)
    for name in graph.outputs:
        wanted = carried(values[name], graph.type(name).dtype)
        np.testing.assert_array_equal(result.outputs[name], wanted)


def test_nearly_every_random_graph_has_valid_inputs():
    missed = 0
    for seed in range(100):
        graph = Symbolic(CATALOG, CONFIG).next(random.Random(seed)).graph
        result = search(graph, random.Random(seed))
        if isinstance(result, NotFound):
            missed += 1
        else:
            check(graph, result)
    # These are all of the first 300: 19 has 23,040 elements to keep between the poles of Tan, 45 a
    # variance of gathered integers and 49 a Log behind Floor, through which no gradient comes.
    assert missed <= 3


def test_the_same_seed_gives_the_same_arrays():
    for seed in range(12):
        graph = Symbolic(CATALOG, CONFIG).next(random.Random(seed)).graph
        one, two = (found(graph, seed) for _ in range(2))
        assert (one.draws, one.steps) == (two.draws, two.steps)
        for a, b in ((one.inputs, two.inputs), (one.outputs, two.outputs)):
            assert all(a[name].tobytes() == b[name].tobytes() for name in a)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.FLOAT32, DType.FLOAT64])
@pytest.mark.parametrize(
    "names",
    [
        ["Log"],
        ["Reciprocal"],
        ["Sin", "Log"],
        ["Sinh", "Sinh", "Exp"],
        ["Floor", "Reciprocal"],
        ["Round", "Log"],
        ["Sign", "Log"],
        ["Relu", "Reciprocal", "Sqrt"],
        ["Softsign", "Acos", "Log", "Asin"],
    ],
    ids="-".join,
)
def test_vulnerable_chains(names, dtype):
    graph = chain(*map(op, names), type_=TensorType(dtype, (3, 4)))
    check(graph, found(graph))


def test_gradients_flow_through_integers_and_booleans():
    ints = TensorType(DType.INT32, (2, 3))
    casts = [op("Cast", to=DType.INT64), op("Abs"), op("Cast", to=DType.FLOAT32)]
    graph = chain(*casts, op("Reciprocal"), type_=ints)
    check(graph, found(graph))
    graph = build(
        {"a": FLOAT, "b": FLOAT},
        [
            ("g", op("Greater"), "ab"),
            ("f", op("Cast", to=DType.FLOAT32), "g"),
            ("l", op("Log"), "f"),
        ],
    )
    check(graph, found(graph))


def test_descent_repairs_what_draws_break():
    """Wide sums are hinted nothing for, so the steps have to shrink them."""
    types = {"a": TensorType(DType.FLOAT32, (4, 64)), "b": TensorType(DType.FLOAT32, (64, 4))}
    graph = build(types, [("m", op("MatMul"), "ab"), ("c", op("Acos"), "m")], weights="b")
    results = [search(graph, random.Random(seed), NO_DRAWS) for seed in range(5)]
    descended = [r for r in results if isinstance(r, Found) and r.steps]
    assert descended
    check(graph, descended[0])


def test_descent_holds_what_it_repaired_before():
    """All elements within [-1, 1], and the sums of four of them 3.2 at least."""
    total = op("ReduceSum", axes=(1,), keepdims=0)
    nodes = [("a", op("Asin"), "x"), ("s", total, "a"), ("t", op("Log"), "s")]
    graph = build({"x": FLOAT}, [*nodes, ("u", op("Acosh"), "t"), ("y", op("Neg"), "u")])
    for seed in range(10):
        check(graph, found(graph, seed))


def test_a_step_that_was_taken_back_leaves_no_trace():
    graph = chain(op("Asin"), op("Log"))
    program, x = Program(graph), torch.full((3, 4), 0.5)
    values = {"x": x, "v0": x.asin(), "v1": x.asin().log()}
    violation = Violation(1, InvalidCause.DOMAIN)
    descent = Descent(program, values, violation, {}, {}, 0.3, np.random.default_rng(0), {0, 1})
    assert descent.held == [0]
    values["v0"] = -x  # Log is violated.
    assert descent.step(values)
    moved, rate = descent.theta["x"], descent.rate
    assert not torch.equal(moved, x.double())
    descent.undo()
    assert torch.equal(descent.theta["x"], x.double()) and descent.rate == rate / 2


def test_integer_division_never_divides_by_zero():
    for dtype in (DType.INT8, DType.INT32, DType.UINT8):
        type_ = TensorType(dtype, (5, 5))
        for name, attributes in (("Div", {}), ("Mod", {"fmod": 0})):
            graph = build(
                {"a": type_, "b": type_},
                [("s", op("Sub"), "ab"), ("d", op(name, **attributes), "as")],
            )
            check(graph, found(graph))


def test_an_index_may_be_a_divisor_too():
    types = {"x": FLOAT, "i": TensorType(DType.INT64, (5,))}
    gather = op("Gather", axis=0)
    nodes = [("g", gather, "xi"), ("d", op("Div"), "ii"), ("y", op("Add"), "dd")]
    for seed in range(20):
        graph = build(types, nodes)
        result = found(graph, seed)
        check(graph, result)
        assert np.abs(result.inputs["i"]).min() >= 1 and result.inputs["i"].max() <= 2


def test_prescribed_indices_out_of_range_are_told():
    index = TensorType(DType.INT64, (2,))
    graph = build(
        {"x": FLOAT, "i": index}, [("y", op("Gather", axis=0), ["x", "i"])], weights=["i"]
    )
    graph.prescribed = {"i": (3, 3)}
    result = search(graph, random.Random(0))
    assert isinstance(result, NotFound)
    assert "out of range: i" in result.reason


def test_an_impossible_graph_names_the_culprit():
    graph = chain(op("Exp"), op("Neg"), op("Log"))
    result = search(graph, random.Random(0), SearchConfig(restarts=2, steps=3))
    assert isinstance(result, NotFound)
    assert "Log" in result.reason and max(result.violations) == 2


def test_budgets_are_counted():
    graph = chain(op("Exp"), op("Neg"), op("Log"))
    result = search(graph, random.Random(0), SearchConfig(restarts=3, draws=2, steps=4))
    assert result.draws == 4 and result.steps <= 12


def test_values_keep_their_inputs_untouched_by_operators():
    graph = chain(op("Relu"), op("Exp"))
    result = found(graph)
    values = {name: torch.from_numpy(array.copy()) for name, array in result.inputs.items()}
    assert Program(graph).run(values) is None
    np.testing.assert_array_equal(values["x"].numpy(), result.inputs["x"])


def test_search_prefers_decisions_away_from_edges():
    """In most regimes of magnitude all of Floor is decided, or nothing is, so it takes 12 seeds."""
    big = TensorType(DType.FLOAT16, (40, 40))
    graph = chain(op("Floor"), type_=big)
    plain = [found(graph, s, SearchConfig(redraws=0, nudges=0)).stable for s in range(12)]
    steady = [found(graph, s, SearchConfig(redraws=0, nudges=2)).stable for s in range(12)]
    assert sum(steady) > sum(plain)
    assert all(found >= before for before, found in zip(plain, steady))


def test_given_parameters_stay_and_the_others_fit_them():
    """In sqrt(x + w), x alone can move."""
    nodes = [("v", op("Add"), ["x", "w"]), ("y", op("Sqrt"), ["v"])]
    graph = build({"x": FLOAT, "w": FLOAT}, nodes, weights=["w"])
    weight = np.full(FLOAT.shape, -50, np.float32)
    result = search(graph, random.Random(0), given={"w": weight})
    assert isinstance(result, Found), result.reason
    check(graph, result)
    assert np.array_equal(result.weights["w"], weight) and (result.inputs["x"] >= 50).all()
