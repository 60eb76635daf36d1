"""Engines make graphs that verify, have the asked size and lack no operator."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import ENGINES, GenerateConfig
from nnfuzz.generate.engine import Kept
from nnfuzz.generate.engines import MADE, engine
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.large import BEYOND, LARGE, SHARES, large_share, large_tensor
from nnfuzz.generate.novelty import rejects, surprise, vertex
from nnfuzz.generate.values import FREE, TypedNames
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.features import features
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.support_key import edge_keys
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.solve.session import SolverSession
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.producer import Producer
from tests.generate.conftest import CATALOG, CONFIG, REGISTRY
from tests.inputs.graphs import op


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
    more = (make(10_000 + seed) for seed in range(300))
    counts = Counter(node.op.name for graph in (*graphs, *more) for node in graph.nodes)
    names = [spec.name for spec in CATALOG.signatures]
    mean = sum(counts.values()) / len(names)
    starved = {name: counts[name] for name in names if counts[name] < mean / 20}
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
    for seed in range(40):
        graph = make(seed, config, name=name)
        graph.verify()
        assert len(graph.nodes) == CONFIG.nodes
        assert not common & set(edge_keys(graph.view()))
    assert sum(bool(common & set(edge_keys(graph.view()))) for graph in graphs[:100]) > 15


# Engines grow graphs around a start.


def test_graphs_grow_around_a_start(name, graphs):
    if name == "mutate":
        pytest.skip("its graphs do not grow, see test_mutate.py")
    for seed, start in enumerate(graphs[:12]):
        grown = engine(name, CATALOG, CONFIG).next(random.Random(seed), [Kept(start)]).graph
        grown.verify()
        assert len(grown.nodes) == len(start.nodes) + CONFIG.nodes
        assert [node.op for node in grown.nodes if node.outputs[0] in start.values]


# What is known of a growing graph's numbers holds for all readers of a value.


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


# Names by dtype and rank.


VECTOR, MATRIX, INDEX = (DType.FLOAT32, 1), (DType.FLOAT32, 2), (DType.INT64, 1)


def filled():
    names = TypedNames()
    for name, kind in (("a", VECTOR), ("b", MATRIX), ("c", VECTOR), ("d", INDEX)):
        names.add(name, kind)
    return names


def test_a_discarded_name_is_gone_and_the_last_takes_its_place():
    names = filled()
    names.discard("a")
    names.discard("never added")
    assert "a" not in names and names.of(VECTOR) == ["c"] and len(names) == 3
    names.discard("c")
    assert names.kinds(1, 1) == [INDEX]


def test_kinds_are_those_of_the_ranks_that_have_names():
    assert filled().kinds(1, 1) == [VECTOR, INDEX]
    assert filled().read([DType.FLOAT32, DType.BOOL], 2, 4) == {DType.FLOAT32: [MATRIX]}


def test_every_name_is_picked_about_as_often():
    names, draw = filled(), Draw(random.Random(1))
    picked = Counter(names.pick(draw, [VECTOR, MATRIX]) for _ in range(300))
    assert picked.keys() == {"a", "b", "c"} and min(picked.values()) > 60
    assert names.pick(draw, [(DType.BOOL, 0)]) is None


# Large tensors, and what bounds them.


def near_a_power(size: int) -> bool:
    return any((size + off).bit_count() == 1 for off in (-1, 0, 1))


def elements(case) -> list[int]:
    return [math.prod(value.shape) for value in case.graph.values]


@pytest.fixture(scope="module")
def mixed() -> list:
    """Forty test cases as campaigns make them."""
    producer = Producer(3, CaseConfig(exporter="direct", large=SHARES["mixed"]))
    return [producer.produce(index) for index in range(40)]


def test_every_rank_has_large_tensors_beside_powers_of_two():
    draw, offsets = Draw(random.Random(0), LARGE), Counter()
    for rank in range(1, 7):
        for _ in range(20):
            type_ = large_tensor(draw, DType.FLOAT32, rank)
            assert BEYOND < type_.numel <= LARGE.max_numel
            assert all(near_a_power(d) and d <= LARGE.dim(rank) for d in type_.shape)
            offsets.update(d - (1 << (d.bit_length() - 1)) for d in type_.shape if d > 9)
    assert offsets[0] and offsets[1] and len(offsets) > 3
    assert large_tensor(draw, DType.FLOAT32, 0) is None


def test_few_graphs_have_large_tensors_and_those_stay_within_the_budget(mixed):
    large = [case for case in mixed if max(elements(case)) > BEYOND]
    assert 1 <= len(large) <= 12
    assert all(sum(elements(case)) <= LARGE.max_total for case in large)
    assert all(max(elements(case)) <= LARGE.max_numel for case in large)


def test_the_share_changes_no_other_graph(mixed):
    usual = Producer(3, CaseConfig(exporter="direct"))
    same = [usual.produce(i).digest() == case.digest() for i, case in enumerate(mixed)]
    assert same == [not {"large", "blocked"}.intersection(case.variations) for case in mixed]


@pytest.mark.parametrize("engine", ["direct", "symbolic"])
def test_nearly_all_graphs_are_large_if_all_shall_be(engine):
    """A few have no operator that takes such a tensor."""
    producer = Producer(1, CaseConfig(exporter="direct", engine=engine, large=1.0))
    made = [producer.produce(index) for index in range(6)]
    assert sum(max(elements(case)) > BEYOND for case in made) >= 5
    assert all(sum(elements(case)) <= LARGE.max_total for case in made)


def test_the_setting_is_one_of_three_words():
    assert [large_share(word) for word in SHARES] == [0.0, 0.1, 1.0]
    with pytest.raises(ValueError, match="small, mixed or large"):
        large_share("huge")


COMMON = "Abs Add Cast Concat Exp MatMul Mul ReduceMean Relu Reshape Sigmoid Softmax Transpose"
SCALAR, IMAGE = (TensorType(DType.FLOAT32, shape) for shape in ((), (1, 3, 17, 40)))


@pytest.mark.parametrize("name", ["direct", "symbolic"])
def test_hardly_any_vertex_occurs_twice(name: str) -> None:
    specs = REGISTRY.select(COMMON.split()).specs()
    config = admitted_by_schema(GenerateConfig(nodes=10, motifs=0.0), specs)
    made_by = engine(name, Catalog(specs, config), config)
    graphs = [features(made_by.next(random.Random(i)).graph.view()) for i in range(40)]
    vertices = [node.vertex for found in graphs for node in found.nodes]
    assert len(set(vertices)) / len(vertices) > 0.93
    assert len({node.op for found in graphs for node in found.nodes}) == len(specs)


def test_a_vertex_of_a_scalar_says_less_than_one_of_an_image() -> None:
    relu = REGISTRY.get("Relu")()
    assert surprise(relu, [SCALAR]) < 4 < 16 < surprise(relu, [IMAGE])
    draw = Draw(random.Random(0))
    assert sum(rejects(draw, relu, [SCALAR], 5.0) for _ in range(200)) > 150
    assert not any(rejects(draw, relu, [IMAGE], 5.0) for _ in range(200))


def test_a_vertex_is_operator_attributes_and_types() -> None:
    transpose = REGISTRY.get("Transpose")
    one, other = transpose(perm=(0, 1)), transpose(perm=(1, 0))
    types = [TensorType(DType.FLOAT32, (2, 3))]
    assert vertex(one, types) == vertex(transpose(perm=(0, 1)), list(types))
    assert vertex(one, types) != vertex(other, types)
    assert vertex(one, types) != vertex(one, [types[0].with_dtype(DType.FLOAT64)])
