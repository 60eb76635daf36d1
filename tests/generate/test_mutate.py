"""A graph changes in a place or two; what is said to be unaffected has the values that it had."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engine import Direct, Kept
from nnfuzz.generate.mutate import Mutate
from nnfuzz.inputs.program import Program
from nnfuzz.inputs.search import DRAWS_ONLY, Found, search
from nnfuzz.ir.support_key import edge_keys
from nnfuzz.operators.carriers import tensor
from tests.inputs.graphs import REGISTRY

CONFIG = admitted_by_schema(GenerateConfig(nodes=8), REGISTRY.specs())
CATALOG = Catalog(REGISTRY.specs(), CONFIG)


@pytest.fixture(scope="module")
def kept() -> list[Kept]:
    found = []
    for seed in range(40):
        graph = Direct(CATALOG, CONFIG).next(random.Random(seed)).graph
        result = search(graph, random.Random(seed), DRAWS_ONLY)
        if isinstance(result, Found):
            found.append(Kept(graph, result.values))
    return found


@pytest.fixture(scope="module")
def changed(kept) -> list[tuple[Kept, object]]:
    engine = Mutate(CATALOG, CONFIG)
    return [
        (start, engine.next(random.Random(f"{i}/{j}"), [start]))
        for i, start in enumerate(kept)
        for j in range(6)
    ]


def test_graphs_verify_and_differ_in_few_places(changed):
    sizes = Counter()
    for start, made in changed:
        made.graph.verify()
        before = {node.outputs[0]: node for node in start.graph.nodes}
        same = [n for n in made.graph.nodes if before.get(n.outputs[0]) is n]
        assert len(same) < max(len(made.graph.nodes), len(before))
        sizes[len(made.graph.nodes) - len(before)] += 1
    assert sizes[1] and sizes[0] and any(size < 0 for size in sizes)


def test_what_is_known_is_what_the_changed_graph_computes(changed):
    reused = compared = 0
    for start, made in changed:
        found = search(made.graph, random.Random(0), DRAWS_ONLY, known=made.known)
        if isinstance(found, Found) and found.draws == 1:
            arrays = {**found.inputs, **found.weights}
            values = {name: tensor(array) for name, array in arrays.items()}
            assert Program(made.graph).run(values) is None
            for name, array in found.values.items():
                assert torch.equal(values[name], array), (made.graph.producer().get(name), name)
                compared += 1
            reused += any(found.values[n] is start.values[n] for n in made.known)
    assert reused > 0.5 * len(changed) and compared > 1000


def test_the_same_seed_changes_the_same(kept):
    one, two = (Mutate(CATALOG, CONFIG).next(random.Random(5), kept[:3]) for _ in range(2))
    assert one.graph.to_json() == two.graph.to_json()


def test_edges_to_avoid_do_not_come_in(kept):
    free = Mutate(CATALOG, CONFIG)
    for i, start in enumerate(kept[:20]):
        old = set(edge_keys(start.graph.view()))
        new = set(edge_keys(free.next(random.Random(i), [start]).graph.view())) - old
        avoiding = Mutate(CATALOG, replace(CONFIG, avoid=frozenset(new)))
        graph = avoiding.next(random.Random(i), [start]).graph
        assert not new & set(edge_keys(graph.view()))
