"""Motifs and their near misses are planted, and graphs with them verify."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from types import ModuleType

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engines import MADE, engine
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.misses import KINDS
from nnfuzz.generate.misses.call import same_shape
from nnfuzz.generate.motifs import EXACT, MissingOperator, MotifWriter, NearMiss, plant
from nnfuzz.inputs.search import Found, search
from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.motif import MISSED, Misfit, Motif, load_motifs, motif, planted_name
from nnfuzz.solve.session import SolverSession
from tests.generate.conftest import REGISTRY

MOTIFS = [found for found in load_motifs() if not found.skeleton]
CONFIG = admitted_by_schema(GenerateConfig(nodes=10, motifs=1.0), REGISTRY.specs())
CATALOG = Catalog(REGISTRY.specs(), CONFIG, MOTIFS)
WIDE = replace(CONFIG, nodes=30)
PLAIN = "Add Sub Mul Div Relu Erf Tanh Pow Sqrt ReduceMean Transpose Reshape MatMul".split()


@motif(size=3)
def gate(m, x):
    """x * (1 + tanh(x))."""
    m("Mul", x, m("Add", m("Tanh", x), 1.0))


@motif(size=2)
def impossible(m, x):
    m("Tanh", m("Reshape", x, shape=(*m.shape(x), 2)))


def planted(found, seed: int, start: TensorType, near: NearMiss = EXACT):
    """The growth with a motif behind a placeholder, and what `plant` said."""
    draw = Draw(random.Random(seed))
    with SolverSession(draw) as session:
        growth = Growth(session, WIDE)
        name = growth.place(start)
        assert name is not None
        return growth, plant(found, CATALOG, growth, name, near)


def starts(found, draw: Draw) -> TensorType:
    lo, hi = found.ranks
    rank = draw.integer(max(lo, min(2, hi)), min(hi, 4))
    dtype = DType.FLOAT32 if DType.FLOAT32 in found.dtypes else found.dtypes[0]
    return TensorType(dtype, tuple(draw.var(f"s{i}", 1, 12) for i in range(rank)))


@pytest.mark.parametrize("found", MOTIFS, ids=lambda found: found.name)
def test_a_motif_can_be_written_within_its_size(found):
    done, sizes = 0, []
    for seed in range(12):
        draw = Draw(random.Random(seed))
        with SolverSession(draw) as session:
            growth = Growth(session, WIDE)
            start = growth.place(starts(found, draw))
            try:
                found.write(MotifWriter(CATALOG, growth), start)
            except MissingOperator as error:
                pytest.skip(f"there is no {error}")
            except Misfit:
                continue
        done += 1
        sizes.append(len(growth.graph.nodes))
        assert start in growth.graph.nodes[0].inputs or any(
            start in node.inputs for node in growth.graph.nodes
        )
    assert done >= 4
    assert max(sizes) <= found.size


def test_constants_have_their_value_wherever_they_are_needed():
    growth, changed = planted(gate, 0, TensorType(DType.FLOAT32, (2, 3)))
    assert changed == ""
    assert [node.op.name for node in growth.graph.nodes] == ["Tanh", "Add", "Mul"]
    (constant,) = [p for p in growth.placeholders.values() if p.range]
    assert constant.range == (1.0, 1.0)


def test_one_place_is_changed_in_every_way_there_is():
    seen = Counter()
    for seed in range(60):
        near = NearMiss(Draw(random.Random(seed)).shuffled(tuple(KINDS)))
        growth, changed = planted(gate, seed, TensorType(DType.FLOAT32, (2, 3)), near)
        assert changed in KINDS
        names = [node.op.name for node in growth.graph.nodes]
        seen["exposed"] += bool(growth.exposed)
        seen["longer"] += len(names) > 3
        seen["other operator"] += len(names) == 3 and names != ["Tanh", "Add", "Mul"]
        seen[changed] += 1
    assert all(seen[kind] for kind in ("exposed", "longer", "other operator"))
    assert len(seen) > 12  # kinds that fit the first operator


@motif(size=2)
def mixed(m, x):
    m("Add", x, m("Cast", x, to=DType.FLOAT64))


def test_operands_of_different_dtypes_do_not_fit():
    growth, changed = planted(mixed, 0, TensorType(DType.FLOAT32, (2, 3)))
    assert changed is None
    assert [node.op.name for node in growth.graph.nodes] == ["Cast"]


def test_what_may_be_computed_later_is_no_index():
    draw = Draw(random.Random(0))
    with SolverSession(draw) as session:
        growth = Growth(session, WIDE)
        data, free = (growth.place(TensorType(DType.INT32, (4,))) for _ in range(2))
        m = MotifWriter(CATALOG, growth)
        with pytest.raises(Misfit):
            m("Gather", data, free, axis=0)
        assert m("Gather", data, -1, axis=0)


def test_what_does_not_fit_leaves_no_trace():
    growth, _ = planted(gate, 1, TensorType(DType.FLOAT32, (2, 3)))
    mark = growth.mark()
    before = growth.graph.concrete(growth.store.env).to_json(), dict(growth.placeholders)
    assert plant(impossible, CATALOG, growth, growth.graph.nodes[-1].outputs[0]) is None
    growth.restore(mark)
    after = growth.graph.concrete(growth.store.env).to_json(), growth.placeholders
    assert before == after


@pytest.fixture(scope="module", params=MADE)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def made(name):
    return [engine(name, CATALOG, CONFIG).next(random.Random(seed)) for seed in range(100)]


def test_graphs_with_motifs_verify_and_have_the_asked_size(made):
    for found in made:
        found.graph.verify()
        assert len(found.graph.nodes) == CONFIG.nodes
    names = Counter(name for found in made for name in found.motifs)
    assert 0.9 < names.total() / len(made) <= 1
    changed = sum(count for name, count in names.items() if "~" in name)
    assert 0.3 < changed / names.total() < 0.65


def test_the_same_seed_plants_the_same(name, made):
    again = engine(name, CATALOG, CONFIG).next(random.Random(7))
    assert again.graph.to_json() == made[7].graph.to_json()
    assert again.motifs == made[7].motifs


def test_without_motifs_graphs_are_what_they_were(name):
    none = replace(CONFIG, motifs=0.0)
    for seed in range(10):
        one = engine(name, CATALOG, none).next(random.Random(seed)).graph
        two = engine(name, Catalog(REGISTRY.specs(), none), CONFIG).next(random.Random(seed)).graph
        assert one.to_json() == two.to_json()


def test_motifs_of_operators_that_are_left_out_are_left_out(name):
    catalog = Catalog(REGISTRY.select(PLAIN).specs(), CONFIG, MOTIFS)
    written = {found.name for found in MOTIFS}
    catalog.motifs = tuple(m for m in catalog.motifs if m.name in written)  # no pairs
    names: Counter[str] = Counter()
    for seed in range(30):
        found = engine(name, catalog, CONFIG).next(random.Random(seed))
        assert {node.op.name for node in found.graph.nodes} <= set(PLAIN)
        names.update(name.partition(MISSED)[0] for name in found.motifs)
    assert "gelu_erf" in names or "gelu_tanh" in names
    assert "attention" not in names


def test_prescribed_weights_survive_json_and_get_their_numbers(made):
    tried = 0
    for found in made[:60]:
        graph = Graph.from_json(found.graph.to_json(), REGISTRY.get)
        assert graph.prescribed == found.graph.prescribed
        if not graph.prescribed:
            continue
        result = search(graph, random.Random(0))
        if isinstance(result, Found):
            tried += 1
            for name, (lo, hi) in graph.prescribed.items():
                assert name in graph.weights
                exact = graph.type(name).dtype
                lo, hi = (exact.numpy.type(end) for end in (lo, hi))
                assert ((result.weights[name] >= lo) & (result.weights[name] <= hi)).all()
    assert tried > 5


def test_a_name_can_be_taken_once():
    modules = [ModuleType(name) for name in ("one", "other")]
    for module in modules:

        def write(m, x):
            m("Neg", x)

        write.__module__ = module.__name__
        module.twin = module.again = Motif("twin", write, 1)
    assert [found.name for found in load_motifs(modules[:1])][-1] == "twin"
    with pytest.raises(ValueError, match="twin is registered twice: in one and other"):
        load_motifs(modules)


def test_motifs_say_where_they_start():
    assert (gate.dtypes, gate.ranks) == (FLOATS, (1, 5))


# Kinds of near misses, one by one.


ROOMY = admitted_by_schema(GenerateConfig(nodes=20, opset=26), REGISTRY.specs())
ROOMY_CATALOG = Catalog(REGISTRY.specs(), ROOMY)


@motif(size=6)
def everything(m, x):
    """A place for every kind: an axis, weights, equal and different numbers."""
    y = m("Sub", x, m("ReduceMean", x, axes=(-1,), keepdims=1))
    y = m("Mul", y, m.weight(y, m.shape(y)[-1]))
    y = m("Add", m("Mul", y, m.weight(y, *m.shape(y))), 2.0)
    m("Div", y, 3.0)


def near_miss(kind: str, seed: int) -> list[str] | None:
    """The operators of a near miss; None where the kind was not made."""
    with SolverSession(Draw(random.Random(seed))) as session:
        growth = Growth(session, ROOMY)
        writer = MotifWriter(ROOMY_CATALOG, growth, NearMiss((kind,)))
        try:
            everything.write(writer, growth.place(TensorType(DType.FLOAT32, (2, 1, 3))))
        except Misfit:
            return None
        growth.graph.concrete(growth.store.env)
        return [node.op.name for node in growth.graph.nodes] if writer.missed else None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_made(kind):
    assert any(near_miss(kind, seed) for seed in range(25))


def test_what_stands_in_between():
    between = {"identity": "Identity", "dropout": "Dropout", "cast_to_same": "Cast"}
    for kind, operator in between.items():
        found = [names for seed in range(9) if (names := near_miss(kind, seed))]
        assert found and all(operator in names and len(names) >= 7 for names in found)


def test_names_of_planted_motifs():
    assert planted_name("gelu_erf", "swapped") == "gelu_erf~swapped"


def test_open_dimensions_are_equal_to_themselves_alone():
    draw = Draw(random.Random(0))
    one, other = draw.var("a", 1, 4), draw.var("b", 1, 4)
    assert same_shape((one, 2), (one, 2)) and not same_shape((one,), (other,))
    assert not same_shape((2,), (2, 2)) and not same_shape((2,), (3,))
