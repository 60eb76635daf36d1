"""Gradient descent on inputs."""

from __future__ import annotations

import random

import numpy as np
import torch

from nnfuzz.inputs.descent import Descent
from nnfuzz.inputs.program import InvalidCause, Program, Violation
from nnfuzz.inputs.search import Found, SearchConfig, search
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from tests.inputs.graphs import FLOAT, build, chain, op
from tests.inputs.test_search import check, found

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
