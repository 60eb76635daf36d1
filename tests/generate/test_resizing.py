from __future__ import annotations

import random

import pytest

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engine import Symbolic
from nnfuzz.generate.resizing import SIZES
from nnfuzz.ir.sizes import join_copies
from nnfuzz.operators.registry import OpRegistry

CONFIG = GenerateConfig(nodes=6)
NAMES = "Add Mul Relu MatMul Softmax ReduceSum Transpose Reshape Concat Slice Conv".split()
CATALOG = Catalog(OpRegistry.load().select(NAMES).specs(), CONFIG)


@pytest.fixture(scope="module")
def families():
    found = []
    for seed in range(60):
        made = Symbolic(CATALOG, CONFIG).next(random.Random(seed))
        found += [(made.graph, f) for f in made.resizable.families(random.Random(seed))]
    return found


def test_some_graphs_come_in_several_sizes(families):
    assert len(families) > 30


def test_a_family_begins_with_the_graph_itself_and_varies_its_inputs_alone(families):
    for graph, family in families:
        assert family[0].to_json() == graph.to_json()
        assert len(family) == SIZES
        join_copies(family).verify()
        shapes = {tuple(g.type(name).shape for name in g.inputs) for g in family}
        assert len(shapes) == SIZES
        for other in family[1:]:
            assert all(other.type(name).same(graph.type(name)) for name in graph.weights)
            assert [n.op.name for n in other.nodes] == [n.op.name for n in graph.nodes]


def test_the_same_seed_gives_the_same_sizes():
    made = Symbolic(CATALOG, CONFIG).next(random.Random(3))
    one, two = (list(made.resizable.families(random.Random(1))) for _ in range(2))
    assert [[g.to_json() for g in f] for f in one] == [[g.to_json() for g in f] for f in two]
