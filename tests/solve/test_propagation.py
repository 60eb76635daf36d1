"""Propagation, Z3 and deciding at once find solutions and lose none."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from nnfuzz.ir.expr import Expr, Var, evaluate, variables
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.solve.propagation import Contradiction, Domains, Propagator, solve
from nnfuzz.solve.smt import SmtSolver
from nnfuzz.solve.store import DecidedStore, EagerDraw
from tests.expressions import ENVS, VARS, conditions, integers


@given(st.lists(conditions, min_size=1, max_size=3))
@settings(max_examples=100)
def test_propagation_loses_no_solution(system):
    alive = [env for env in ENVS if all(evaluate(c, env) for c in system)]
    try:
        propagator = Propagator(system)
        propagator.propagate()
    except Contradiction:
        assert not alive
        return
    for env in alive:
        for var in propagator.vars:
            lo, hi = propagator.domains.of(var)
            assert lo <= env[var] <= hi


@given(st.lists(conditions, min_size=1, max_size=3), st.integers(0, 9))
@settings(max_examples=80)
def test_search_only_answers_with_solutions(system, seed):
    found = solve(system, Draw(random.Random(seed)), free=VARS)
    if found is not None:
        assert set(found) >= set(VARS)
        assert all(evaluate(c, found) for c in system)


@given(st.lists(conditions, min_size=1, max_size=3), st.sampled_from(VARS), st.integers(-9, 9))
@settings(max_examples=100)
def test_what_is_taken_back_leaves_no_value_behind(system, var, value):
    try:
        tried, fresh = Propagator(system), Propagator(system)
        tried.propagate()
        fresh.propagate()
    except Contradiction:
        return
    if not tried.assign(var, value, value):
        for condition in system:
            assert tried.domains.truth(condition) is fresh.domains.truth(condition)
        assert tried.domains.box == fresh.domains.box


@given(conditions, st.sampled_from(ENVS), st.integers(0, 9))
@settings(max_examples=80)
def test_values_known_of_fixed_variables_are_kept_and_right(condition, env, seed):
    fixed, values = {v: env[v] for v in VARS[:2]}, {}
    found = solve([condition], Draw(random.Random(seed)), fixed, values=values)
    if found is not None:
        whole = {**env, **found}
        assert all(evaluate(e, whole) == value for e, value in values.items())


# Bounds of expressions contain their values.


@given(integers)
@settings(max_examples=100)
def test_declared_and_propagated_bounds_contain_every_value(e):
    values = [evaluate(e, env) for env in ENVS]
    lo, hi = Domains().bounds(e)
    assert lo <= min(values) and max(values) <= hi
    if isinstance(e, Expr):
        assert e.lo <= min(values) and max(values) <= e.hi


@given(integers, st.sampled_from(ENVS))
@settings(max_examples=80)
def test_bounds_of_fixed_variables_are_the_value(e, env):
    lo, hi = Domains(env).bounds(e)
    assert lo <= evaluate(e, env) <= hi


# Expressions in Z3 mean what they mean in Python.


@given(st.lists(conditions, min_size=1, max_size=2))
@settings(max_examples=60)
def test_z3_finds_a_model_exactly_where_enumeration_does(system):
    alive = any(all(evaluate(c, env) for c in system) for env in ENVS)
    with SmtSolver(seed=1, resources=20_000_000) as solver:
        solver.add(system)
        model = solver.check()
    assert (model is not None) == alive
    if model is not None:
        env = {**ENVS[0], **model}
        assert all(evaluate(c, env) for c in system)
        assert all(v.lo <= model[v] <= v.hi for v in model)


@given(integers, st.sampled_from(ENVS))
@settings(max_examples=60)
def test_z3_evaluates_as_python_does(e, env):
    with SmtSolver(seed=1) as solver:
        solver.add([v == env[v] for v in variables(e)])
        solver.add([e == evaluate(e, env)])
        assert solver.check() is not None
        solver.push()
        solver.add([e != evaluate(e, env)])
        assert solver.check() is None


def test_scopes_forget_constraints_and_variables():
    a, b, _ = VARS
    with SmtSolver() as solver:
        solver.add([b >= 3])
        solver.push()
        solver.add([b <= 2, a == 1])
        assert solver.check() is None
        solver.pop()
        assert set(solver.check()) == {b}


def test_a_check_without_resources_answers_none():
    a, b, c = VARS
    with SmtSolver(resources=1) as solver:
        solver.add([a * b * c == 12, a + b == c])
        assert solver.check() is None


# A store whose variables get their values at once.


def store():
    return DecidedStore(random.Random(1), Sizes())


def test_variables_get_values_that_satisfy_their_constraints():
    x, y = Var("x", 1, 9), Var("y", 1, 9)
    decided = store()
    assert decided.extend([x + y == 10, x > y], [x, y], lambda env, values: True)
    assert decided.env[x] + decided.env[y] == 10 and decided.env[x] > decided.env[y]


def test_what_cannot_hold_or_is_not_accepted_changes_nothing():
    x = Var("x", 1, 9)
    decided = store()
    assert not decided.extend([x > 9], [x], lambda env, values: True)
    assert not decided.extend([False], [], lambda env, values: True)
    assert not decided.extend([x > 3], [x], lambda env, values: False)
    assert decided.env == {}


def test_sizes_come_again_where_they_are_admitted() -> None:
    draw = EagerDraw(random.Random(1), Sizes(again=0.5))
    sizes = [draw.var("d", 1, 1000) for _ in range(200)]
    again = sum(size in sizes[max(0, i - 20) : i] for i, size in enumerate(sizes))
    assert 60 < again < 160
    assert all(draw.var("d", 2000, 3000) >= 2000 for _ in range(20))
