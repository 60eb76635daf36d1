"""Propagation loses no solution."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from nnfuzz.ir.expr import evaluate
from nnfuzz.operators.draw import Draw
from nnfuzz.solve.domains import Contradiction
from nnfuzz.solve.propagation import Propagator, solve
from tests.expressions import ENVS, VARS, conditions


@given(st.lists(conditions, min_size=1, max_size=3))
@settings(max_examples=300)
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
@settings(max_examples=200)
def test_search_only_answers_with_solutions(system, seed):
    found = solve(system, Draw(random.Random(seed)), free=VARS)
    if found is not None:
        assert set(found) >= set(VARS)
        assert all(evaluate(c, found) for c in system)


@given(st.lists(conditions, min_size=1, max_size=3), st.sampled_from(VARS), st.integers(-9, 9))
@settings(max_examples=300)
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
@settings(max_examples=200)
def test_values_known_of_fixed_variables_are_kept_and_right(condition, env, seed):
    fixed, values = {v: env[v] for v in VARS[:2]}, {}
    found = solve([condition], Draw(random.Random(seed)), fixed, values=values)
    if found is not None:
        whole = {**env, **found}
        assert all(evaluate(e, whole) == value for e, value in values.items())
