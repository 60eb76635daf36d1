"""Bounds of expressions contain their values."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nnfuzz.ir.expr import Expr, evaluate
from nnfuzz.solve.domains import Domains
from tests.expressions import ENVS, integers


@given(integers)
@settings(max_examples=300)
def test_declared_and_propagated_bounds_contain_every_value(e):
    values = [evaluate(e, env) for env in ENVS]
    lo, hi = Domains().bounds(e)
    assert lo <= min(values) and max(values) <= hi
    if isinstance(e, Expr):
        assert e.lo <= min(values) and max(values) <= e.hi


@given(integers, st.sampled_from(ENVS))
@settings(max_examples=200)
def test_bounds_of_fixed_variables_are_the_value(e, env):
    lo, hi = Domains(env).bounds(e)
    assert lo <= evaluate(e, env) <= hi
