"""The operators that generation chooses from, and the targets of coverage."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from nnfuzz.generate.arrangements import Arrangement
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engines import MADE, engine
from nnfuzz.generate.focus import focused_weights, touching
from nnfuzz.generate.pairs import Pair
from nnfuzz.generate.turns import CYCLE, TURNS, CoverageTargets, writable
from nnfuzz.operators.motif import load_motifs, motif
from nnfuzz.operators.registry import OpRegistry


def test_every_dtype_and_rank_of_every_operator_is_a_coverage_target():
    catalog = Catalog(SPECS, CONFIG)
    targets = CoverageTargets(catalog)
    for spec, signatures in catalog.signatures.items():
        mine = [target for target in targets.all if target.spec is spec]
        lo, hi = spec.inputs[0].ranks
        assert {target.rank for target in mine} == set(range(lo, hi + 1))
        assert {s.key for target in mine for s in target.signatures} == {s.key for s in signatures}


def test_an_operator_is_refused_by_its_name_alone():
    names = [spec.name for spec in Catalog(SPECS, CONFIG).signatures]
    left = Catalog(SPECS, replace(CONFIG, refused=frozenset(names[:1])))
    assert [spec.name for spec in left.signatures] == names[1:]


# Rare dtypes and ranks get their turn.


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


# What a focus on operators prefers.


REGISTRY = OpRegistry.load()
FEW = REGISTRY.select(["Abs", "Cast", "MatMul", "Relu", "Transpose"]).specs()


@motif(size=2)
def both(m, x):
    m("Relu", m("Abs", x))


@motif(size=1)
def one(m, x):
    m("Abs", x)


@motif(size=1)
def other(m, x):
    m("Transpose", x)


def test_operators_of_the_focus_are_as_frequent_as_all_others():
    found = focused_weights({"Cast": 2.0}, FEW, ("Abs", "Relu"))
    own = {spec.name: spec.weight * found.get(spec.name, 1.0) for spec in FEW}
    assert own["Abs"] == own["Relu"]
    assert own["Abs"] + own["Relu"] == own["Cast"] + own["MatMul"] + own["Transpose"]
    assert found["Cast"] == 2.0


def test_motifs_that_touch_the_focus_are_left_and_weighed():
    found = {m.name: m for m in touching((both, one, other), FEW, ("Abs", "Relu"))}
    assert {name: m.weight for name, m in found.items()} == {"both": 4.0, "one": 1.0}
    assert [name for name, m in found.items() if m.turns] == ["both"]
    found = touching((both, one, other), FEW, ("Abs", "Cast"))
    assert all(m.turns for m in found)  # none is covered wholly


def test_every_target_and_every_pair_has_an_operator_of_the_focus():
    focus = ("MatMul", "Transpose")
    catalog = Catalog(FEW, GenerateConfig(focus=focus))
    targets = CoverageTargets(catalog, focus)
    assert targets.focused and {t.spec.name for t in targets.all} == set(focus)
    assert all(targets.pick(1, index, always=True) for index in range(20))
    pairs = {m.name: m.write for m in catalog.motifs if not isinstance(m.write, Arrangement)}
    assert len(pairs) == len(catalog.motifs) - 1
    assert {"MatMul+Transpose", "Transpose+MatMul"} <= pairs.keys()
    assert all(isinstance(pair, Pair) for pair in pairs.values())
    assert all({p.front.name, p.behind.name} & {*focus} for p in pairs.values())


def test_a_focus_that_is_not_there_leaves_all_targets():
    targets = CoverageTargets(Catalog(FEW, GenerateConfig()), ("Softmax",))
    assert not targets.focused and {t.spec.name for t in targets.all} == {s.name for s in FEW}


# Motifs that a choice of operators can write.


MOTIFS = tuple(load_motifs())


def chosen(*names: str):
    return tuple(REGISTRY.select(names).specs())


@motif(size=2)
def one_or_the_other(m, x):
    """Has a form with each of two operators."""
    m(m.draw.choice(("Relu", "Tanh")), x)


def test_all_operators_can_write_almost_all_motifs():
    assert len(writable(MOTIFS, tuple(REGISTRY.specs()))) >= 0.97 * len(MOTIFS)


def test_a_motif_that_lacks_an_operator_is_left_out():
    names = {m.name for m in writable(MOTIFS, chosen("Mul", "Sigmoid"))}
    assert names and names < {m.name for m in MOTIFS}


def test_one_form_that_can_be_written_is_enough():
    assert writable((one_or_the_other,), chosen("Relu")) == (one_or_the_other,)
    assert writable((one_or_the_other,), chosen("Exp")) == ()
