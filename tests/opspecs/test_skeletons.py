"""Skeletons can be written, are valid graphs, and no larger than they say."""

from __future__ import annotations

import random

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.misses import KINDS
from nnfuzz.generate.motifs import EXACT, NearMiss
from nnfuzz.generate.moves import GraphGrower
from nnfuzz.inputs.search import Found, search
from nnfuzz.materialize.opsets import opset_range
from nnfuzz.operators.motif import load_motifs
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.solve.store import DecidedStore

SPECS = OpRegistry.load().specs()
NEWEST = opset_range("direct")[1]
SKELETONS = [motif for motif in load_motifs() if motif.skeleton]
TRIES = 6


def catalog(opset: int) -> Catalog:
    specs = [spec for spec in SPECS if spec.since <= opset]
    return Catalog(specs, admitted_by_schema(GenerateConfig(opset=opset), specs), ())


CATALOGS = {opset: catalog(opset) for opset in (13, NEWEST)}


def grown(skeleton, seed: int, near: NearMiss = EXACT, opset: int = NEWEST) -> GraphGrower | None:
    """A graph of a skeleton alone; None if it does not fit."""
    config = GenerateConfig(opset=opset)
    store = DecidedStore(random.Random(f"{skeleton.name}/{seed}"), config.sizes)
    made = GraphGrower(CATALOGS[opset], config, store)
    return made if made._planted(skeleton, near) else None


def test_there_are_many_and_each_name_is_there_once():
    names = [skeleton.name for skeleton in SKELETONS]
    assert len(names) == len(set(names))
    assert len(SKELETONS) >= 40


@pytest.mark.parametrize("skeleton", SKELETONS, ids=lambda skeleton: skeleton.name)
def test_a_skeleton_is_a_valid_graph_within_its_size_and_has_inputs(skeleton):
    made = [found for seed in range(TRIES) if (found := grown(skeleton, seed))]
    assert len(made) >= TRIES * 0.6
    reader = 1
    assert max(len(found.growth.graph.nodes) for found in made) <= skeleton.size + reader
    graphs = [found.finish() for found in made]
    for graph in graphs:
        graph.verify()
        assert graph.inputs and graph.outputs
    found = [search(graph, random.Random(0)) for graph in graphs]
    assert sum(isinstance(inputs, Found) for inputs in found) >= 0.6 * len(made)


@pytest.mark.parametrize("skeleton", SKELETONS, ids=lambda skeleton: skeleton.name)
def test_a_near_miss_of_a_skeleton_is_a_valid_graph(skeleton):
    done = 0
    for seed in range(20):
        rng = random.Random(seed)
        kinds = rng.sample(list(KINDS), len(KINDS))
        found = grown(skeleton, seed, NearMiss(kinds, rng.randint(1, skeleton.size)))
        if found:
            found.finish().verify()
            done += 1
        if done == 4:
            break
    assert done >= 2


def test_most_skeletons_fit_an_old_opset():
    fitting = [s for s in SKELETONS if any(grown(s, seed, opset=13) for seed in range(8))]
    assert len(fitting) >= len(SKELETONS) - 4


def test_tables_are_weights_and_ids_are_inputs():
    skeleton = next(s for s in SKELETONS if s.name == "bert_embedding")
    graphs = [made.finish() for seed in range(12) if (made := grown(skeleton, seed))]
    given = [all(not g.type(name).dtype.is_float for name in g.inputs) for g in graphs]
    assert sum(given) >= 0.7 * len(graphs)


def test_of_a_closed_skeleton_nothing_but_results_is_read():
    skeleton = next(s for s in SKELETONS if s.name == "swiglu")
    made = next(found for seed in range(TRIES) if (found := grown(skeleton, seed)))
    growth = made.growth
    growth.close()
    inner = {name for node in growth.graph.nodes for name in node.outputs} - set(growth.loose)
    assert inner and inner <= growth.inner
    assert not inner & set(growth.named)
    assert set(made.finish().outputs) == set(growth.loose)
