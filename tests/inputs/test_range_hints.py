from __future__ import annotations

import math

import numpy as np

from nnfuzz.inputs.program import admitted_ranges
from nnfuzz.inputs.range_hints import range_hints
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from tests.inputs.graphs import FLOAT, build, chain, op


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
