"""Rare dtypes and ranks get their turn."""

from __future__ import annotations

import random

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.spotlight import CYCLE, TURNS, spot_for
from nnfuzz.generate.symbolic import generate
from nnfuzz.spec.registry import OpRegistry

SPECS = OpRegistry.load().select(["Abs", "Where", "Cast", "MatMul", "Equal"]).specs()
CONFIG = GenerateConfig(nodes=2, motifs=0, refused=frozenset({"Abs(float16)->float16"}))


def test_every_dtype_and_rank_of_every_operator_is_a_spot():
    catalog = Catalog(SPECS, CONFIG)
    for spec, signatures in catalog.signatures.items():
        mine = [spot for spot in catalog.spots if spot.spec is spec]
        lo, hi = spec.inputs[0].ranks
        assert {spot.rank for spot in mine} == set(range(lo, hi + 1))
        assert {s.key for spot in mine for s in spot.signatures} == {s.key for s in signatures}


def test_all_spots_have_their_turn_and_most_graphs_have_none():
    catalog = Catalog(SPECS, CONFIG)
    count = len(catalog.spots) * CYCLE // len(TURNS) + CYCLE
    found = [spot_for(catalog, 7, index) for index in range(count)]
    assert {id(s) for s in found if s} == {id(s) for s in catalog.spots}
    assert sum(s is None for s in found) >= count / 2


def test_a_graph_begins_with_its_spot():
    catalog = Catalog(SPECS, CONFIG)
    for number, spot in enumerate(catalog.spots):
        graph = generate(catalog, CONFIG, random.Random(number), spot=spot).graph
        graph.verify()
        keys = {s.key for s in spot.signatures}
        instances = [n for n in graph.nodes if n.op.name == spot.spec.name]
        ranks = {graph.type(n.inputs[0]).rank for n in instances}
        assert spot.rank in ranks, (spot, keys)
