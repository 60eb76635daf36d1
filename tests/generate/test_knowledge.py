from __future__ import annotations

import math

import pytest

from nnfuzz.generate.knowledge import Known, derive, narrowed, unread
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from tests.inputs.graphs import op

FLOAT = TensorType(DType.FLOAT32, (3, 4))


def through(*operators, start: Known | None = None) -> Known | None:
    """What is known behind unary operators; None once one has no valid input."""
    known = start or unread(FLOAT)
    for operator in operators:
        if known is None:
            return None
        known = derive(operator, [FLOAT], [known])
    return known


@pytest.mark.parametrize(
    "names",
    [
        ["Exp", "Neg", "Log"],
        ["Cosh", "Asin"],
        ["Sigmoid", "Floor", "Log"],
        ["Erf", "Log", "Sqrt"],
        ["Exp", "Neg", "Sqrt"],
    ],
    ids="-".join,
)
def test_chains_without_an_input_are_refused(names):
    assert through(*map(op, names)) is None


@pytest.mark.parametrize(
    "names",
    [["Sin", "Log"], ["Neg", "Log"], ["Cosh", "Log", "Sqrt"], ["Erf", "Acos", "Log"]],
    ids="-".join,
)
def test_chains_with_an_input_are_admitted(names):
    assert through(*map(op, names)) is not None


def test_equal_operands_are_recognised():
    x, y = Known(), Known()
    assert derive(op("Sub"), [FLOAT, FLOAT], [x, x]).range == (0, 0)
    assert derive(op("Sub"), [FLOAT, FLOAT], [x, y]).range == (-math.inf, math.inf)
    assert derive(op("Greater"), [FLOAT, FLOAT], [x, x]).range == (0, 0)
    zero = derive(op("Sub"), [FLOAT, FLOAT], [x, x])
    assert derive(op("Div"), [FLOAT, FLOAT], [y, zero]) is None


def test_constants_among_the_elements_are_remembered():
    padded = through(op("Pad", mode="constant", pads=(1, 0, 0, 0), value=0))
    assert (0, 0) in padded.special
    assert through(op("Log"), start=padded) is None
    assert through(op("Reciprocal"), start=padded) is None
    assert through(op("Exp"), op("Log"), start=padded) is not None


def test_the_least_probability_is_bounded():
    assert through(op("LogSoftmax", axis=0), op("Acos")) is None
    assert through(op("LogSoftmax", axis=0), op("Exp"), op("Acos")) is not None


def test_readers_narrow_what_is_known():
    x = Known()
    (cut,) = narrowed(op("Sqrt"), [x])
    assert cut.range == (0, math.inf)
    assert derive(op("Neg"), [FLOAT], [cut]).range == (-math.inf, 0)


def test_integers_wrap_around():
    type_ = TensorType(DType.INT8, (3,))
    known = derive(op("Add"), [type_, type_], [unread(type_), unread(type_)])
    assert known.range == (-128, 127)
