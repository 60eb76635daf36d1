"""What a focus on operators prefers."""

from __future__ import annotations

from nnfuzz.generate.arrangements import Arrangement
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.coverage_target import CoverageTargets
from nnfuzz.generate.focus import focused_weights, touching
from nnfuzz.generate.pairs import Pair
from nnfuzz.operators.motif import motif
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()
SPECS = REGISTRY.select(["Abs", "Cast", "MatMul", "Relu", "Transpose"]).specs()


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
    found = focused_weights({"Cast": 2.0}, SPECS, ("Abs", "Relu"))
    own = {spec.name: spec.weight * found.get(spec.name, 1.0) for spec in SPECS}
    assert own["Abs"] == own["Relu"]
    assert own["Abs"] + own["Relu"] == own["Cast"] + own["MatMul"] + own["Transpose"]
    assert found["Cast"] == 2.0


def test_motifs_that_touch_the_focus_are_left_and_weighed():
    found = {m.name: m.weight for m in touching((both, one, other), SPECS, ("Abs", "Relu"))}
    assert found == {"both": 4.0, "one": 1.0}


def test_every_target_and_every_pair_has_an_operator_of_the_focus():
    focus = ("MatMul", "Transpose")
    catalog = Catalog(SPECS, GenerateConfig(focus=focus))
    targets = CoverageTargets(catalog, focus)
    assert targets.focused and {t.spec.name for t in targets.all} == set(focus)
    assert all(targets.pick(1, index, always=True) for index in range(20))
    pairs = {m.name: m.write for m in catalog.motifs if not isinstance(m.write, Arrangement)}
    assert len(pairs) == len(catalog.motifs) - 1
    assert {"MatMul+Transpose", "Transpose+MatMul"} <= pairs.keys()
    assert all(isinstance(pair, Pair) for pair in pairs.values())
    assert all({p.front.name, p.behind.name} & {*focus} for p in pairs.values())


def test_a_focus_that_is_not_there_leaves_all_targets():
    targets = CoverageTargets(Catalog(SPECS, GenerateConfig()), ("Softmax",))
    assert not targets.focused and {t.spec.name for t in targets.all} == {s.name for s in SPECS}
