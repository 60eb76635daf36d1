"""Inputs of random graphs: their search, draws and regimes."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engine import Symbolic
from nnfuzz.inputs.descent import Descent
from nnfuzz.inputs.draws import HUNDREDS, ORDERS, Regime, _least, draw_array, in_regime
from nnfuzz.inputs.program import InvalidCause, Program, Violation, admitted_ranges, terms_hold
from nnfuzz.inputs.range_hints import range_hints
from nnfuzz.inputs.search import Found, NotFound, SearchConfig, search
from nnfuzz.ir.dtypes import ALL, FLOATS, INTS, DType
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.carriers import array as carried
from nnfuzz.operators.carriers import settled, tensor
from nnfuzz.operators.operator import ANY_RANGE, flatten
from tests.inputs.graphs import FLOAT, REGISTRY, build, chain, op

CONFIG = admitted_by_schema(GenerateConfig(nodes=10), REGISTRY.specs())
CATALOG = Catalog(REGISTRY.specs(), CONFIG)


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
    for seed in range(40):
        graph = Symbolic(CATALOG, CONFIG).next(random.Random(seed)).graph
        result = search(graph, random.Random(seed))
        if isinstance(result, NotFound):
            missed += 1
        else:
            check(graph, result)
    # All of them have an Inverse of a matrix that is nearly singular whatever its inputs are, or a
    # Normalizer of rows that may be 0.
    assert missed <= 2


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


def test_descent_holds_what_it_repaired_before():
    """All elements within [-1, 1], and the sums of four of them 3.2 at least."""
    total = op("ReduceSum", axes=(1,), keepdims=0)
    nodes = [("a", op("Asin"), "x"), ("s", total, "a"), ("t", op("Log"), "s")]
    graph = build({"x": FLOAT}, [*nodes, ("u", op("Acosh"), "t"), ("y", op("Neg"), "u")])
    for seed in range(10):
        check(graph, found(graph, seed))


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


# Graphs as programs of tensors.


def test_values_keep_their_inputs_untouched_by_operators():
    graph = chain(op("Relu"), op("Exp"))
    result = found(graph)
    values = {name: torch.from_numpy(array.copy()) for name, array in result.inputs.items()}
    assert Program(graph).run(values) is None
    np.testing.assert_array_equal(values["x"].numpy(), result.inputs["x"])


def test_computed_indices_that_are_out_of_range_are_a_violation():
    """Of an operator made of others, too."""
    embed = op("com.microsoft.EmbedLayerNormalization", epsilon=1e-5, summed=0)
    ids, width = TensorType(DType.INT32, (1, 2)), TensorType(DType.FLOAT32, (4,))
    table = TensorType(DType.FLOAT32, (3, 4))
    tables = {"words": table, "places": table, "scale": width, "shift": width}
    steps = [("i", op("Neg"), ["x"]), ("y", embed, ["i", *tables])]
    graph = build({"x": ids, **tables}, steps, list(tables))
    values = {name: torch.ones(graph.type(name).sizes) for name in tables}
    for start, right in ((0, True), (8, False)):
        values["x"] = torch.full((1, 2), start, dtype=torch.int32)
        assert (Program(graph).run(values) is None) is right


# Gradient descent on inputs.


NO_DRAWS = SearchConfig(restarts=1, draws=1, steps=80)


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


# Regimes of inputs.


def regime_of(values: np.ndarray) -> set[Regime]:
    """Regimes that the elements of a float array belong to."""
    kind, numbers = DType.of(values.dtype), values.astype(np.float64).ravel()
    sizes = np.abs(numbers[numbers != 0])
    if not sizes.size:
        return set()
    least, greatest = sizes.min(), sizes.max()
    whole, halves = sizes == np.rint(sizes), 2 * sizes == np.rint(2 * sizes)
    shown = {
        Regime.INTEGERS: bool(whole.all()) and greatest < HUNDREDS,
        Regime.TIES: bool(halves.all()) and not whole.all(),
        Regime.LARGE: greatest >= HUNDREDS,
        Regime.TINY: greatest <= 32 * _least(kind),
        Regime.SPREAD: sizes.size > 1 and greatest >= 2.0 ** (ORDERS / 2) * least,
    }
    return {regime for regime, here in shown.items() if here}


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64])
def test_every_regime_is_drawn_where_nothing_forbids_it(dtype):
    rng, type_ = np.random.default_rng(4), TensorType(dtype, (40,))
    for regime in Regime:
        shown = [
            regime_of(in_regime(regime, rng, type_, ANY_RANGE).astype(dtype.numpy)) for _ in "abcde"
        ]
        assert sum(regime in regimes for regimes in shown) >= 4, regime
    drawn = [regime_of(draw_array(rng, type_, None, 0)) for _ in range(400)]
    for regime in Regime:
        assert sum(regime in shown for shown in drawn) > 0.1 * len(drawn)
    assert not any(regime_of(draw_array(rng, type_, None, 1)) - {Regime.SPREAD} for _ in range(50))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bounds", [(-3, 3), (0.1, 2), (-math.inf, -4), (0, 0), (5.2, 5.4)])
def test_regimes_keep_to_bounds(dtype, bounds):
    rng = np.random.default_rng(5)
    for regime in Regime:
        for shape in ((), (0,), (9,)):
            values = in_regime(regime, rng, TensorType(dtype, shape), bounds)
            if values is not None:
                assert values.shape == shape
                assert ((values >= bounds[0]) & (values <= bounds[1])).all()


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.value)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 1)])
def test_arrays_have_the_asked_type(dtype, shape):
    rng = np.random.default_rng(0)
    for restart in range(10):
        array = draw_array(rng, TensorType(dtype, shape), None, restart)
        assert isinstance(array, np.ndarray)
        assert array.dtype == dtype.numpy and array.shape == shape
        assert np.isfinite(array.astype(np.float64)).all()


@pytest.mark.parametrize("dtype", [*INTS, DType.BOOL], ids=lambda d: d.value)
def test_discrete_arrays_are_never_all_one_value(dtype):
    rng = np.random.default_rng(1)
    for restart in range(100):
        assert len(set(draw_array(rng, TensorType(dtype, (3,)), None, restart % 4).tolist())) > 1


def test_hints_are_followed():
    rng = np.random.default_rng(2)
    for hint in ((0.5, 2.0), (1e-4, math.inf), (-math.inf, -1.0), (2.0, 2.0)):
        array = draw_array(rng, TensorType(DType.FLOAT64, (50,)), hint, 0)
        assert (array >= hint[0]).all() and (array <= hint[1]).all()
    for restart in range(50):
        indices = draw_array(rng, TensorType(DType.INT64, (9,)), (-5, 4), restart)
        assert indices.min() >= -5 and indices.max() <= 4


def test_integers_reach_far_sometimes():
    rng = np.random.default_rng(3)
    arrays = [draw_array(rng, TensorType(DType.INT32, (8,)), None, 0) for _ in range(100)]
    far = sum(int(np.abs(a.astype(np.int64)).max() > 10_000) for a in arrays)
    assert 2 <= far <= 40


@pytest.mark.parametrize("dtype", [DType.INT64, DType.UINT64, DType.INT32])
def test_a_quarter_of_wide_integers_is_beyond_what_float32_holds(dtype):
    rng = np.random.default_rng(6)
    arrays = [draw_array(rng, TensorType(dtype, (4,)), None, 0) for _ in range(400)]
    tops = [max(abs(int(x)) for x in array) for array in arrays]
    assert 0.25 < sum(top > 2**24 for top in tops) / len(tops) < 0.55
    assert sum(top <= 10 for top in tops) > 0.25 * len(tops)
    powers = [2**bits for bits in (24, 31, 32, 53) if 2**bits <= dtype.limits[1]]
    assert all(any(abs(top - power) <= 5 for top in tops) for power in powers)


@pytest.mark.parametrize("bounds", [(200, 250), (-300, -200), (0, 5), (100, 130)])
def test_integers_stay_within_bounds(bounds):
    rng = np.random.default_rng(7)
    for _ in range(50):
        values = draw_array(rng, TensorType(DType.INT64, (5,)), bounds, 0)
        assert bounds[0] <= values.min() and values.max() <= bounds[1]


def hinted(graph, name="x", shuffled=False):
    return range_hints(graph, np.random.default_rng(0), shuffled)[name]


def test_readers_pass_their_domain_back():
    lo, _ = hinted(chain(op("Log")))
    assert lo > 0
    lo, _ = hinted(chain(op("Transpose", perm=(1, 0)), op("Log")))
    assert lo > 0
    lo, hi = hinted(chain(op("Neg"), op("Sqrt")))
    assert hi <= 0
    lo, hi = hinted(chain(op("Tan"), op("Asin")))
    assert math.atan(-1) < lo <= hi < math.atan(1)


def test_prescribed_ranges_hold_even_where_an_operator_wants_others():
    channel = TensorType(DType.FLOAT32, (4,))
    types = {"x": FLOAT, **dict.fromkeys("abmv", channel)}
    graph = build(types, [("y", op("BatchNormalization", epsilon=1e-5), "xabmv")])

    def within(*bounds):
        return range_hints(graph, np.random.default_rng(0), False, {"v": bounds})["v"]

    assert within(-1.0, 2.0) == (0.0, 2.0)  # a variance is at least 0
    assert within(-3.0, -2.0) == (-3.0, -2.0)


def test_divisors_stay_on_one_side_of_zero():
    for type_ in (FLOAT, TensorType(DType.INT32, (3, 4))):
        graph = build({"a": type_, "b": type_}, [("d", op("Div"), "ab")])
        lo, hi = hinted(graph, "b")
        assert lo > 0 or hi < 0


def test_dividends_may_be_any_number():
    for type_ in (FLOAT, TensorType(DType.INT64, (3, 4))):
        graph = build({"a": type_, "b": type_}, [("d", op("Div"), "ab")])
        assert "a" not in range_hints(graph, np.random.default_rng(0), False)


def test_comparisons_that_must_hold_separate_their_operands():
    graph = build(
        {"a": FLOAT, "b": FLOAT},
        [
            ("g", op("Greater"), "ab"),
            ("f", op("Cast", to=DType.FLOAT32), "g"),
            ("l", op("Log"), "f"),
        ],
    )
    found = range_hints(graph, np.random.default_rng(0), False)
    assert found["a"][0] > found["b"][1]


def test_admitted_ranges_are_the_intersection_of_all_readers():
    graph = build(
        {"x": FLOAT},
        [
            ("s", op("Sqrt"), "x"),
            ("t", op("Transpose", perm=(1, 0)), "x"),
            ("a", op("Asin"), "t"),
            ("u", op("Transpose", perm=(1, 0)), "a"),
            ("y", op("Add"), "su"),
        ],
    )
    assert admitted_ranges(graph) == {"x": (0.0, 1.0)}
