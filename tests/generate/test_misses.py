"""Kinds of near misses, one by one."""

from __future__ import annotations

import random

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.misses import KINDS
from nnfuzz.generate.misses.call import same_shape
from nnfuzz.generate.motifs import MotifWriter, NearMiss
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.motif import Misfit, motif, planted_name
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.solve.session import SolverSession

REGISTRY = OpRegistry.load()
CONFIG = admitted_by_schema(GenerateConfig(nodes=20, opset=26), REGISTRY.specs())
CATALOG = Catalog(REGISTRY.specs(), CONFIG)


@motif(size=6)
def everything(m, x):
    """A place for every kind: an axis, weights, equal and different numbers."""
    y = m("Sub", x, m("ReduceMean", x, axes=(-1,), keepdims=1))
    y = m("Mul", y, m.weight(y, m.shape(y)[-1]))
    y = m("Add", m("Mul", y, m.weight(y, *m.shape(y))), 2.0)
    m("Div", y, 3.0)


def made(kind: str, seed: int) -> list[str] | None:
    """The operators of a near miss; None where the kind was not made."""
    with SolverSession(Draw(random.Random(seed))) as session:
        growth = Growth(session, CONFIG)
        writer = MotifWriter(CATALOG, growth, NearMiss((kind,)))
        try:
            everything.write(writer, growth.place(TensorType(DType.FLOAT32, (2, 1, 3))))
        except Misfit:
            return None
        growth.graph.concrete(growth.store.env)
        return [node.op.name for node in growth.graph.nodes] if writer.missed else None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_made(kind):
    assert any(made(kind, seed) for seed in range(25))


def test_what_stands_in_between():
    between = {"identity": "Identity", "dropout": "Dropout", "cast_to_same": "Cast"}
    for kind, operator in between.items():
        found = [names for seed in range(9) if (names := made(kind, seed))]
        assert found and all(operator in names and len(names) == 7 for names in found)


def test_names_of_planted_motifs():
    assert planted_name("gelu_erf", "swapped") == "gelu_erf~swapped"


def test_open_dimensions_are_equal_to_themselves_alone():
    draw = Draw(random.Random(0))
    one, other = draw.var("a", 1, 4), draw.var("b", 1, 4)
    assert same_shape((one, 2), (one, 2)) and not same_shape((one,), (other,))
    assert not same_shape((2,), (2, 2)) and not same_shape((2,), (3,))
