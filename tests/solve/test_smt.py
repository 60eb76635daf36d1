"""Expressions in Z3 mean what they mean in Python."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nnfuzz.ir.expr import evaluate, variables
from nnfuzz.solve.smt import SmtSolver
from tests.expressions import ENVS, VARS, conditions, integers


@given(st.lists(conditions, min_size=1, max_size=2))
@settings(max_examples=150)
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
@settings(max_examples=150)
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
