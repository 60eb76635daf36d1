"""Every motif and every kind of near miss gets its turn."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engines import MADE, engine
from nnfuzz.generate.misses import KINDS
from nnfuzz.generate.motifs import EXACT, SPARE
from nnfuzz.generate.moves import AROUND
from nnfuzz.generate.turns import (
    CYCLE,
    EXACTS,
    MISSES,
    TURNS,
    motif_turns,
    skeleton_turns,
    turn_number,
    turns_of,
)
from nnfuzz.generate.turns import CYCLE as BEGUN
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.motif import MISSED, load_motifs
from nnfuzz.operators.registry import OpRegistry

SPECS = OpRegistry.load().specs()
CONFIG = admitted_by_schema(GenerateConfig(nodes=10), SPECS)
EVERY = load_motifs()
MOTIFS = [motif for motif in EVERY if not motif.skeleton]
CATALOG = Catalog(SPECS, CONFIG, MOTIFS)
CATALOG_OF_ALL = Catalog(SPECS, CONFIG, EVERY)


def test_all_combinations_have_their_turn_within_a_cycle_of_them():
    written = {motif.name for motif in MOTIFS}
    models = len(written) * len(KINDS) * CYCLE // len(MISSES) + CYCLE
    found = [turns[0] for index in range(models) if (turns := motif_turns(CATALOG, 7, index))]
    missed = {(turn.motif.name, turn.kind) for turn in found if turn.kind}
    assert missed == {(name, kind) for name in written for kind in KINDS}
    assert {turn.motif.name for turn in found if not turn.kind} == written


def test_some_test_cases_have_no_turn_and_none_has_a_coverage_target_as_well():
    for index in range(4 * CYCLE):
        turns = motif_turns(CATALOG, 0, index)
        assert bool(turns) == (index % CYCLE in (*MISSES, *EXACTS))
        assert not turns or turn_number(index, BEGUN, TURNS) is None
        assert len(set(turns)) == len(turns)


def test_another_opset_has_the_same_turns_and_another_seed_has_others():
    older = admitted_by_schema(GenerateConfig(nodes=10, opset=13), SPECS)
    catalog = Catalog([spec for spec in SPECS if spec.since <= 13], older, MOTIFS)
    orders = [
        [[(t.motif.name, t.kind) for t in motif_turns(given, seed, index)] for index in range(50)]
        for given, seed in ((CATALOG, 0), (catalog, 0), (CATALOG, 1))
    ]
    assert orders[0] == orders[1] != orders[2]


def test_without_motifs_or_with_a_weight_of_zero_there_are_no_turns():
    assert not any(motif_turns(Catalog(SPECS, CONFIG), 0, index) for index in range(CYCLE))
    off = [replace(motif, weight=0.0) for motif in MOTIFS[1:]]
    left = Catalog(SPECS, GenerateConfig(), [MOTIFS[0], *off])
    found = [turn for index in range(CYCLE) for turn in motif_turns(left, 0, index)]
    assert {turn.motif.name for turn in found} == {MOTIFS[0].name}


SHARE = 0.1


def test_skeletons_have_their_share_and_each_has_its_turn():
    wanted = Counter({motif.name: turns_of(motif) for motif in EVERY if motif.skeleton})
    count = int(wanted.total() / SHARE)
    found = [skeleton_turns(CATALOG_OF_ALL, 7, index, SHARE) for index in range(count)]
    assert Counter(turns[0].motif.name for turns in found if turns) == wanted
    assert wanted["bert_embedding"] == 2 * wanted["swiglu"] == 4
    assert not any(
        turn.motif.skeleton for i in range(count) for turn in motif_turns(CATALOG_OF_ALL, 7, i)
    )
    assert all(skeleton_turns(CATALOG_OF_ALL, 7, index, 1.0) for index in range(20))


def test_skeletons_stand_at_no_fixed_place_of_the_cycle():
    places = {
        index % CYCLE
        for index in range(200 * CYCLE)
        if skeleton_turns(CATALOG_OF_ALL, 0, index, SHARE)
    }
    assert places == set(range(CYCLE))


def test_one_skeleton_in_three_is_a_near_miss():
    draw = Draw(random.Random(0))
    turns = [skeleton_turns(CATALOG_OF_ALL, 0, index, 1.0)[0] for index in range(600)]
    missed = sum(next(turn.ways(draw)) is not EXACT for turn in turns)
    assert 0.27 < missed / len(turns) < 0.4


@pytest.mark.parametrize("name", ["direct", "symbolic"])
def test_a_skeleton_is_planted_and_some_nodes_grow_around_it(name):
    made_by, kept = engine(name, CATALOG_OF_ALL, CONFIG), 0
    for index in range(40):
        turns = skeleton_turns(CATALOG_OF_ALL, 3, index, 1.0)
        made = made_by.next(random.Random(index), (), None, turns)
        made.graph.verify()
        names = {turn.motif.name: turn.motif.size for turn in turns}
        planted = [names[n] for n in (m.partition(MISSED)[0] for m in made.motifs) if n in names]
        kept += bool(planted)
        assert len(made.graph.nodes) <= max(CONFIG.nodes, *planted, 0) + SPARE + AROUND + 1
    assert kept >= 36


def test_a_turn_plants_a_motif_as_it_is_or_by_its_kind_of_near_miss_alone():
    draw = Draw(random.Random(0))
    for index in range(CYCLE):
        for turn in motif_turns(CATALOG, 0, index):
            ways = list(turn.ways(draw))
            assert ways[0].kinds == (turn.kind,) if turn.kind else ways[0] is EXACT
            assert all(1 <= near.start <= turn.motif.size for near in ways)


@pytest.mark.parametrize("name", MADE)
def test_most_graphs_with_a_turn_have_its_motif(name):
    made_by, kept, count = engine(name, CATALOG, CONFIG), 0, 0
    for index in range(120):
        turns = motif_turns(CATALOG, 3, index)
        if turns:
            made = made_by.next(random.Random(index), (), None, turns)
            made.graph.verify()
            read = {name for node in made.graph.nodes for name in node.inputs}
            assert read.issuperset((*made.graph.inputs, *made.graph.weights))
            names = {t.motif.name + (MISSED + t.kind if t.kind else "") for t in turns}
            kept, count = kept + bool(names.intersection(made.motifs)), count + 1
    assert kept / count > 0.7


def test_with_a_focus_every_second_test_case_begins_with_a_motif_in_both_forms():
    found = [motif_turns(CATALOG, 0, index, aimed=True) for index in range(CYCLE)]
    assert [bool(turns) for turns in found] == [True, False] * 5
    assert Counter(bool(turns[0].kind) for turns in found if turns) == {True: 3, False: 2}
