"""Rare dtypes and ranks get their turn."""

from __future__ import annotations

import random

import pytest

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.coverage_target import CYCLE, TURNS, CoverageTargets
from nnfuzz.generate.engines import MADE, engine
from nnfuzz.operators.registry import OpRegistry

SPECS = OpRegistry.load().select(["Abs", "Where", "Cast", "MatMul", "Equal"]).specs()
CONFIG = GenerateConfig(nodes=2, motifs=0, refused=frozenset({"Abs(float16)->float16"}))


def test_all_coverage_targets_have_their_turn_and_most_graphs_have_none():
    catalog = Catalog(SPECS, CONFIG)
    targets = CoverageTargets(catalog)
    count = len(targets.all) * CYCLE // len(TURNS) + CYCLE
    found = [targets.pick(7, index) for index in range(count)]
    assert {id(s) for s in found if s} == {id(s) for s in targets.all}
    assert sum(s is None for s in found) >= count / 2


@pytest.mark.parametrize("name", MADE)
def test_a_graph_begins_with_its_coverage_target(name):
    catalog = Catalog(SPECS, CONFIG)
    targets = CoverageTargets(catalog)
    for number, target in enumerate(targets.all):
        graph = engine(name, catalog, CONFIG).next(random.Random(number), (), target).graph
        graph.verify()
        keys = {s.key for s in target.signatures}
        instances = [n for n in graph.nodes if n.op.name == target.spec.name]
        ranks = {graph.type(n.inputs[0]).rank for n in instances}
        assert target.rank in ranks, (target, keys)
