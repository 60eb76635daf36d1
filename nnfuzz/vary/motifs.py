"""Variations of graphs: motifs and skeletons, which take turns by the index of the test."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.engine import Generated
from nnfuzz.generate.motif_turns import motif_turns, skeleton_turns
from nnfuzz.operators.motif import MISSED
from nnfuzz.vary.variation import CaseDraft, GraphPlan, Variation, VariedTest

if TYPE_CHECKING:
    from nnfuzz.testcase.case import CaseConfig


class Skeletons(Variation):
    """A part of a model as people deploy it, in place of the turn of a motif."""

    name, setting = "skeleton", "skeleton_share"

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        if test.index is None or _keeps_to_focus(test):
            return plan
        return replace(plan, turns=skeleton_turns(test.catalog, test.seed, test.index, self.share))


class Motifs(Variation):
    """Patterns that optimisers look for; with a focus, every second graph begins with an
    arrangement of its operators or any other motif.
    """

    name, setting = "motif", "motifs"

    def __init__(self, config: CaseConfig, catalog: Catalog) -> None:
        super().__init__(config, catalog)
        self.skeletons = frozenset(motif.name for motif in catalog.skeletons)

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return True

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        if test.index is None or plan.turns or _keeps_to_focus(test):
            return plan
        return replace(plan, turns=motif_turns(test.catalog, test.seed, test.turn))

    def grown(
        self, draft: CaseDraft, plan: GraphPlan, made: Generated, rng: random.Random
    ) -> CaseDraft:
        kinds = {name: name.partition(MISSED)[0] in self.skeletons for name in made.motifs}
        skeleton = Skeletons.name
        return draft.named(*(f"{skeleton if kinds[n] else self.name}:{n}" for n in made.motifs))


def _keeps_to_focus(test: VariedTest) -> bool:
    """Whether the graph begins with an operator of the focus."""
    return bool(test.config.focus) and bool(test.turn % 2)
