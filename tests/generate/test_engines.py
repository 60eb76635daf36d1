from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import ENGINES, GenerateConfig
from nnfuzz.generate.engines import MADE, engine
from nnfuzz.ir.edges import edge_keys
from nnfuzz.ir.graph import Graph
from nnfuzz.operators.draw import Draw, Sizes
from tests.generate.conftest import CATALOG, CONFIG, REGISTRY


def make(
    seed: int, config: GenerateConfig = CONFIG, catalog: Catalog = CATALOG, name: str = "direct"
) -> Graph:
    return engine(name, catalog, config).next(random.Random(seed)).graph


def test_the_command_line_offers_every_engine():
    assert set(ENGINES) == set(MADE)
    with pytest.raises(KeyError, match="there is no engine 'quick'; there are direct"):
        engine("quick", CATALOG, CONFIG)


def test_every_graph_verifies_and_has_the_asked_size(graphs):
    for graph in graphs:
        graph.verify()
        assert len(graph.nodes) == CONFIG.nodes
        assert graph.inputs and graph.outputs


def test_parameters_of_a_node_are_mostly_constant_together(name, graphs):
    if name == "mutate":
        pytest.skip("what it leaves out may be a parameter")
    shares = Counter()
    for graph in graphs:
        weights = set(graph.weights)
        for node in graph.nodes:
            read = zip(node.inputs, node.op.patterns(len(node.inputs)))
            held = [value in weights for value, pattern in read if pattern.weight]
            shares["all" if all(held) else "some" if any(held) else "none"] += bool(held)
    assert shares["all"] > 0.6 * shares.total()
    assert shares["some"] < 0.08 * shares.total() < shares["none"]


def test_graphs_are_connected(graphs):
    for graph in graphs:
        parent = {name: name for name in graph.values}

        def find(name, parent=parent):
            while parent[name] != name:
                name = parent[name]
            return name

        for node in graph.nodes:
            for name in (*node.inputs, *node.outputs):
                parent[find(name)] = find(node.outputs[0])
        assert len({find(name) for name in graph.values}) == 1


def test_sizes_are_kept(graphs):
    sizes = Sizes()
    for graph in graphs:
        for node in graph.nodes:
            assert node.op.cost(*graph.types(node.inputs)) <= sizes.max_flops
        for value in graph.values.values():
            assert value.type.numel <= sizes.max_numel
            assert all(d >= 0 for d in value.type.shape)
        empty = {name for name, value in graph.values.items() if value.type.is_empty}
        touching = [n for n in graph.nodes if not empty.isdisjoint((*n.inputs, *n.outputs))]
        assert all(node.op.takes_empty for node in touching)


def test_no_operator_starves(graphs):
    counts = Counter(node.op.name for graph in graphs for node in graph.nodes)
    names = [spec.name for spec in CATALOG.signatures]
    mean = sum(counts.values()) / len(names)
    starved = {name: counts[name] for name in names if counts[name] < mean / 10}
    assert not starved


def test_both_directions_and_both_kinds_of_placeholders_occur(graphs):
    assert any(graph.weights for graph in graphs)
    assert any(len(graph.inputs) > 1 for graph in graphs)
    assert any(len(graph.outputs) > 1 for graph in graphs)
    forward = make(1, replace(CONFIG, backward=0.0), name="symbolic")
    backward = make(1, replace(CONFIG, backward=1.0), name="symbolic")
    assert forward.to_json() != backward.to_json()


def test_attributes_are_not_boundary_values(graphs):
    ends = Counter()
    for graph in graphs:
        for name in (*graph.inputs, *graph.weights):
            type_ = graph.type(name)
            top = Sizes().dim(type_.rank)
            ends.update("top" if d == top else "one" if d == 1 else "inner" for d in type_.shape)
    assert ends["top"] < 0.1 * ends.total()
    assert ends["inner"] > 0.5 * ends.total()


def test_refused_signatures_do_not_occur(name):
    keys = CATALOG.signature_keys()  # which do not name the dtypes of scores and statistics
    unnamed = ("float32", "Classifier", "Statistics")
    refused = frozenset(k for k in keys if any(part in k for part in unnamed))
    config = admitted_by_schema(GenerateConfig(nodes=5, refused=refused), REGISTRY.specs())
    catalog = Catalog(REGISTRY.specs(), config)
    for seed in range(30):
        graph = make(seed, config, catalog, name)
        for node in graph.nodes:
            dtypes = {t.dtype.value for t in graph.types((*node.inputs, *node.outputs))}
            assert "float32" not in dtypes


def test_an_empty_catalog_is_an_error():
    with pytest.raises(ValueError, match="no operator is left"):
        Catalog([], CONFIG)


def test_bins_cover_the_domain_evenly_on_a_log_scale():
    draw = Draw(random.Random(0))
    values = Counter(draw.value(1, 64).bit_length() for _ in range(7000))
    assert set(values) == {1, 2, 3, 4, 5, 6, 7}
    assert max(values.values()) < 1.5 * min(values.values())


def test_offsets_are_zero_half_of_the_time_and_take_both_signs():
    draw = Draw(random.Random(0))
    values = [draw.value(-4, 4, "offset") for _ in range(2000)]
    assert 0.4 < values.count(0) / 2000 < 0.6
    assert set(values) == set(range(-4, 5))


def test_edges_to_avoid_do_not_occur(name, graphs):
    seen = Counter(edge for graph in graphs for edge in edge_keys(graph.view()))
    common = frozenset(edge for edge, _ in seen.most_common(40))
    config = replace(CONFIG, avoid=common)
    for seed in range(100):
        graph = make(seed, config, name=name)
        graph.verify()
        assert len(graph.nodes) == CONFIG.nodes
        assert not common & set(edge_keys(graph.view()))
    assert sum(bool(common & set(edge_keys(graph.view()))) for graph in graphs[:100]) > 15
