"""What is known of a growing graph's numbers holds for all readers of a value."""

from __future__ import annotations

import random

import pytest

from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.placeholder import FREE
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.solve.session import SolverSession
from tests.inputs.graphs import op

FLOAT = TensorType(DType.FLOAT32, (3, 4))


@pytest.fixture
def growth():
    """A growing graph with a placeholder and, behind it, the root of its negative."""
    draw = Draw(random.Random(0))
    with SolverSession(draw) as session:
        growth = Growth(session, GenerateConfig())
        assert growth.insert(op("Neg"), [FREE], [FLOAT], smt=False)
        (x,) = growth.placeholders
        (y,) = growth.loose
        assert growth.insert(op("Sqrt"), [y], [FLOAT], smt=False)
        yield growth, x


def test_readers_of_one_value_must_agree(growth):
    growth, x = growth
    assert not growth.insert(op("Log"), [x], [FLOAT], smt=False)
    assert [node.op.name for node in growth.graph.nodes] == ["Neg", "Sqrt"]
    assert growth.insert(op("Acos"), [x], [FLOAT], smt=False)
    assert growth.known[x].range == (-1, 1)


def test_what_computes_a_placeholder_must_suit_all_readers(growth):
    growth, x = growth
    assert not growth.precede(op("Exp"), [FLOAT], x, smt=False)
    assert growth.precede(op("Tanh"), [FLOAT], x, smt=False)


def test_a_node_in_front_narrows_its_inputs(growth):
    growth, x = growth
    assert growth.precede(op("Log"), [FLOAT], x, smt=False)
    (p,) = growth.placeholders
    assert growth.known[p].range[0] > 0
    assert growth.insert(op("Neg"), [p], [FLOAT], smt=False)
    *_, negative = growth.loose
    assert not growth.insert(op("Sqrt"), [negative], [FLOAT], smt=False)
