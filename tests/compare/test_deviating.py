"""What habits of a compiler explain: narrower types and saturation, over whole graphs."""

import numpy as np
import pytest

from nnfuzz.backend.numeric import CONSIDERED, FLUSHES, SATURATES, Deviation
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.deviating import beside_habits, explains, explanation
from nnfuzz.compare.mismatch import MismatchKind
from nnfuzz.compare.reference import reference
from nnfuzz.compare.verdict import judge
from nnfuzz.ir.dtypes import DType

F32 = Deviation("float64", "float32")
I32 = Deviation("int64", "int32")
S8 = Deviation("int8", SATURATES)
X = np.array([0.1, 1e-3, 7.3])


@pytest.fixture
def chain(build):
    """(array, operators...) -> graph, parameters, the output's name."""

    def made(x, *operators):
        builder = build(x=x)
        name = "x"
        for operator in operators:
            name = builder.add(operator, name)
        return *builder.done(name), name

    return made


def wrong(graph, params, outputs):
    """That the outputs are wrong, and what habits say of them."""
    verdict = judge(graph, params, {"it": outputs})
    assert verdict.mismatches["it"]
    return explanation(CONSIDERED, graph, params, outputs)[0]


def test_double_in_float_is_explained_in_either_dtype(chain):
    graph, params, name = chain(X, "Exp", "Sqrt")
    narrow = np.sqrt(np.exp(X.astype(np.float32)))
    assert wrong(graph, params, {name: narrow.astype(np.float64)}) == (F32,)
    assert wrong(graph, params, {name: narrow}) == (F32,)
    assert not explains([F32], graph, params, {name: narrow * np.float32(1.001)})


def test_what_a_habit_accounts_for_is_told_apart_from_what_is_wrong_beside_it(build):
    builder = build(x=X, y=np.array([1.0, 2.0]))
    exp, neg = builder.add("Exp", "x"), builder.add("Neg", "y")
    graph, params = builder.done(exp, neg)
    narrow = np.exp(X.astype(np.float32)).astype(np.float64)
    both = {exp: narrow, neg: np.array([1.0, -2.0])}
    assert explanation([F32], graph, params, both, [exp, neg]) == ((), {exp})
    assert explanation([F32], graph, params, {**both, neg: -params["y"]}, [exp])[0] == (F32,)


def test_a_habit_does_not_account_for_what_takes_none(build):
    """What is wrong for another reason, as at edges, where an envelope of numbers admits all."""
    builder = build(x=np.array([np.nan]))
    graph, params = builder.done(name := builder.add("Exp", "x"))
    assert explanation([F32], graph, params, {name: np.array([np.inf])}, [name]) == ((), set())


def test_integers_that_depend_on_no_large_number_must_be_right(chain):
    graph, params, name = chain(np.array([2**40, -5, 7]), "Abs", "Neg")
    assert wrong(graph, params, {name: np.array([0, -5, -7], np.int32)}) == (I32,)
    assert wrong(graph, params, {name: np.array([1 - 2**31, -5, -7])}) == (I32,)
    assert not explains([I32], graph, params, {name: np.array([0, -5, -8])})


def test_a_scalar_is_judged_like_any_other(chain):
    graph, params, name = chain(np.array(2**40), "Abs")
    assert wrong(graph, params, {name: np.array(0)}) == (I32,)


def test_a_wrong_integer_must_be_one_that_the_narrower_type_holds(chain):
    graph, params, name = chain(np.array([2**60 + 1]), "Abs")
    assert wrong(graph, params, {name: np.array([2**60])}) == (Deviation("int64", "float32"),)
    odd = np.array([2**60 + 2**20])
    assert not explains([I32], graph, params, {name: odd})
    assert explains([Deviation("int64", "float64")], graph, params, {name: odd})


def test_sums_of_unsigned_integers_are_the_same_in_signed_ones(build):
    builder = build(x=np.array([2**63 + 5, 7], np.uint64))
    name = builder.add("Add", "x", "x")
    graph, params = builder.done(name)
    wrong = {name: np.array([9, 14], np.uint64)}
    assert not explains([Deviation("uint64", "int64")], graph, params, wrong)
    assert explains([Deviation("uint64", "int32")], graph, params, wrong)
    assert not explains([Deviation("uint64", "int32")], graph, params, {name: wrong[name] + 6})


def test_saturation_explains_what_overflows_and_nothing_else(build):
    builder = build(x=np.array([100, 3], np.int8))
    name = builder.add("Add", "x", "x")
    graph, params = builder.done(name)
    assert wrong(graph, params, {name: np.array([127, 6], np.int8)}) == (S8,)
    assert not explains([S8], graph, params, {name: np.array([-56, 7], np.int8)})
    assert not explains([S8], graph, params, {name: np.array([-57, 6], np.int8)})


def test_what_saturates_by_definition_is_no_matter_of_saturation(build):
    builder = build(x=np.array([100, 3], np.float32), scale=np.array(0.5, np.float32))
    exact = builder.add("QuantizeLinear", "x", "scale", to=DType.INT8, axis=None)
    rounded = builder.add(
        "QuantizeLinear", builder.add("Exp", "x"), "scale", to=DType.INT8, axis=None
    )
    graph, params = builder.done(exact, rounded)
    right = {exact: np.array([127, 6], np.int8), rounded: np.array([127, 40], np.int8)}
    assert explains([S8], graph, params, right)
    for name in right:
        assert not explains([S8], graph, params, {**right, name: right[name] - np.int8(90)})


def test_another_dtype_than_the_narrower_one_is_no_matter_of_a_habit(chain):
    graph, params, name = chain(X, "IsNaN")
    truth = np.isnan(X)
    assert explains([F32], graph, params, {name: truth})
    assert not explains([F32], graph, params, {name: truth.astype(np.float32)})
    assert not explains([F32], graph, params, {name: truth.astype(np.float64)})


def test_a_wrong_shape_or_a_missing_output_is_no_matter_of_numbers(chain):
    graph, params, name = chain(X, "Exp")
    for outputs in ({}, {name: np.exp(X)[None]}, {name: np.exp(X).astype(np.int64)}):
        assert not explains([F32], graph, params, outputs)


def test_truth_values_may_be_numbers_but_not_others(chain):
    graph, params, name = chain(np.array([True, False]), "Not")
    habit = Deviation("bool", "int32")
    assert explains([habit], graph, params, {name: np.array([0, 1], np.int32)})
    assert not explains([habit], graph, params, {name: np.array([1, 0], np.int32)})
    assert not explains([habit], graph, params, {name: np.array([0, 2], np.int32)})
    assert not explains([habit], graph, params, {name: np.array([0, 1], np.int64)})


def test_a_habit_explains_what_is_wrong_whatever_else_is_returned(build):
    builder = build(x=X, y=np.array([True]))
    exp, no = builder.add("Exp", "x"), builder.add("Not", "y")
    graph, params = builder.done(exp, no)
    outputs = {exp: np.array([0.0, 1.0, 2.0]), no: np.array([0], np.int32)}
    habit = Deviation("bool", "int32")
    assert explanation([habit], graph, params, outputs, [no]) == ((habit,), {no})
    assert explanation([habit], graph, params, outputs) == ((), {no})


@pytest.mark.parametrize("habit", CONSIDERED, ids=str)
def test_what_is_right_is_right_under_any_habit(chain, habit):
    graph, params, name = chain(X.astype(np.float32), "Exp")
    assert explains([habit], graph, params, {name: np.exp(params["x"])})
    assert read(Deviation, as_json(habit)) == habit


def test_habits_that_an_explanation_can_do_without_are_left_out(build):
    builder = build(x=X, y=np.array([-128], np.int8), z=np.array([1]))
    exp, neg, same = builder.add("Exp", "x"), builder.add("Neg", "y"), builder.add("Neg", "z")
    graph, params = builder.done(exp, neg, same)
    narrow = np.exp(X.astype(np.float32)).astype(np.float64)
    outputs = {exp: narrow, neg: np.array([127], np.int8), same: np.array([-1])}
    wraps = Deviation("int8", SATURATES)
    assert explanation([I32, F32, wraps], graph, params, outputs)[0] == (F32, wraps)


@pytest.mark.parametrize("rounded", [True, False])
def test_a_wider_type_may_hold_what_was_rounded_to_the_own_one(chain, rounded):
    half = np.array([0.1, 0.3, 2.7], np.float16)
    graph, params, name = chain(half, "Exp", "Sqrt")
    exact = np.sqrt(np.exp(half.astype(np.float32)))
    result = exact.astype(np.float16).astype(np.float32) if rounded else exact
    habit = Deviation("float16", "float32")
    assert explains([habit], graph, params, {name: result})
    assert not explains([habit], graph, params, {name: result * np.float32(1.01)})


@pytest.mark.parametrize("operators", [("Sign",), ("Ceil",), ("Neg", "Sign"), ("Abs", "Log")])
def test_subnormal_numbers_taken_for_0_are_no_mismatch_whatever_reads_them(chain, operators):
    graph, params, name = chain(np.array([1e-40, -1e-41, 3.0], np.float32), *operators)
    zero, right, _ = chain(np.array([0, 0, 3], np.float32), *operators)
    with np.errstate(divide="ignore"):
        outputs = {name: reference(zero, right)[name].numpy().astype(np.float32)}
    assert not judge(graph, params, {"it": outputs}).mismatches["it"]
    assert explains([Deviation("float32", FLUSHES)], graph, params, outputs)


def test_wrong_values_in_the_dtype_of_a_habit_are_wrong_values(chain):
    graph, params, name = chain(X, "Exp")
    for factor, kind in ((1.0, MismatchKind.DTYPE), (1.5, MismatchKind.VALUE)):
        outputs = {name: np.exp(X.astype(np.float32)) * np.float32(factor)}
        told = judge(graph, params, {"it": outputs}).mismatches["it"]
        assert [m.kind for m in beside_habits([F32], graph, params, outputs, told)] == [kind]
        assert beside_habits([I32], graph, params, outputs, told) == told


def test_a_gate_that_is_flushed_on_the_way_may_be_0(build):
    builder = build(x=np.array([2.0**-126], np.float32), y=np.array([-(2.0**20)], np.float32))
    name = builder.add("SwiGLU", "x", "y", alpha=1)
    graph, params = builder.done(name)
    outputs = {name: np.array([-0.0], np.float32)}
    assert not judge(graph, params, {"it": outputs}).mismatches["it"]
