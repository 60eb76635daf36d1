"""Variations of graphs and of their inputs: opset, sizes, motifs, IEEE edge values."""

from __future__ import annotations

import itertools
import random
import zlib
from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.engine import Generated
from nnfuzz.generate.interface import is_taken
from nnfuzz.generate.large import LARGE
from nnfuzz.generate.resizing import Resizable
from nnfuzz.generate.turns import motif_turns, skeleton_turns
from nnfuzz.inputs.edges import at_edges, expected
from nnfuzz.inputs.search import FURTHER, Found, search
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.sizes import by_copy, copies, from_copies, join_copies
from nnfuzz.materialize.emit import SizeError, emit_called
from nnfuzz.materialize.older import WHOLE
from nnfuzz.materialize.opsets import CALLED, CALLED_DIRECT, is_called
from nnfuzz.operators.motif import MISSED
from nnfuzz.vary.variation import CaseDraft, GraphPlan, Variation, VariedTest

if TYPE_CHECKING:
    from nnfuzz.testcase.case import CaseConfig

DIMENSIONS = 4
"""How many dimensions of a graph are tried as a symbolic dimension."""
MULTIPLES = 0.8
"""Probability that a size of a graph with blocked sizes is one of nnfuzz.operators.draw.BLOCKS."""
TIMED, FEW = 1024, 3
"""Least elements of the first tensor of a graph that is timed, and its most operators."""
NOTHING = 0.1
"""Probability that a fresh dimension of a tensor that may be empty is 0."""


class Opset(Variation):
    """A model whose opset is not the newest one of its exporter."""

    name = "opset"

    @staticmethod
    def in_order(writers: Mapping[str, float], seed: int, index: int) -> Iterator[str]:
        """Writers (exporters at an opset) in the order in which a test case tries them. The first
        one is drawn. writers: with their weights.
        """
        names, ends = list(writers), list(itertools.accumulate(writers.values()))
        share = zlib.crc32(f"{seed}/{index}/opset".encode()) / 2**32
        start = bisect(ends, share * ends[-1])
        yield from (*names[start:], *names[:start])

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return config.opset < max(config.drawn, default=0)

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        name = f"{self.name}:{self.config.opset}"
        return replace(plan, variations=(*plan.variations, name))


class Symbolic(Variation):
    """A model with a symbolic dimension, which is run at three sizes."""

    name = setting = "dynamic"

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return True  # it draws in every test, so that its share changes no other test

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        drawn = not plan.corpus and rng.random() < self.share
        return replace(plan, symbolic=True) if drawn and self.config.opset >= WHOLE else plan

    def grown(
        self, draft: CaseDraft, plan: GraphPlan, made: Generated, rng: random.Random
    ) -> CaseDraft:
        if not plan.symbolic or not made.resizable:
            return draft
        if not is_taken(made.graph, self.config.interface):  # what is left keeps its size
            return draft
        whole = _at_several_sizes(made.resizable, rng, self.config.opset)
        if whole is None:
            return draft
        return replace(draft, graph=whole, exporter=CALLED_DIRECT).named(self.name)


def _at_several_sizes(resizable: Resizable, rng: random.Random, opset: int) -> Graph | None:
    """Copies of the graph at several sizes (nnfuzz.ir.sizes) that one model can compute, or None.

    Raises: as `emit_model` does.
    """
    for family in itertools.islice(resizable.families(rng), DIMENSIONS):
        whole = join_copies(family)
        types = {name: whole.type(name) for name in whole.weights}
        weights = {name: np.zeros(t.sizes, t.dtype.numpy) for name, t in types.items()}
        try:
            emit_called(whole, weights, opset)
        except SizeError:
            continue
        return whole
    return None


class Calls(Variation):
    """A model that is compiled once and called three times: with its inputs, with others, and with
    the first ones again; one with a symbolic dimension at each size, and at the first one again.
    """

    name = setting = "calls"

    def valued(self, test: VariedTest, draft: CaseDraft) -> CaseDraft:
        rng = test.stream(self.name)
        if rng.random() >= self.share or not draft.graph.inputs:
            return draft
        parts, found, exporter = copies(draft.graph), draft.found, draft.exporter
        inputs, outputs = by_copy(found.inputs), by_copy(found.outputs)
        if not is_called(exporter):
            exporter += CALLED
            other = search(draft.graph, rng, FURTHER, found.weights)
            if not isinstance(other, Found):
                return draft
            parts, inputs = [*parts, parts[0]], [*inputs, other.inputs]
            outputs = [*outputs, other.outputs]
        fed = from_copies([*inputs, inputs[0]])
        found = replace(found, inputs=fed, outputs=from_copies([*outputs, outputs[0]]))
        whole = join_copies([*parts, parts[0]])
        return replace(draft, graph=whole, exporter=exporter, found=found).named(self.name)


class Large(Variation):
    """A graph with a large tensor, or as often one with sizes that are mostly multiples of 8; not
    for graphs made from an earlier one.
    """

    name = setting = "large"

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return config.engine != "mutate" and super().applies(config)

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        draw, sizes, name = test.stream("sizes").random(), plan.config.sizes, self.name
        if draw >= 2 * self.share or plan.corpus or plan.symbolic:
            return plan
        if draw < self.share:
            sizes = replace(LARGE, ranks=sizes.ranks)
        else:
            sizes, name = replace(sizes, blocks=MULTIPLES), "blocked"
        config = replace(plan.config, sizes=sizes)
        return replace(plan, config=config, variations=(*plan.variations, name))


class Slow(Variation):
    """A small graph whose first tensor is so large that the CPU time of a call can be compared."""

    name = setting = "slow"

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        if test.stream(self.name).random() >= self.share:
            return plan
        sizes = replace(plan.config.sizes, least_first=TIMED)
        config = replace(plan.config, nodes=min(plan.config.nodes, FEW), sizes=sizes)
        return replace(plan, config=config, variations=(*plan.variations, self.name))


class Leak(Variation):
    """A model whose program is called some hundred times."""

    name = setting = "leak"

    def valued(self, test: VariedTest, draft: CaseDraft) -> CaseDraft:
        return draft.named(self.name) if test.stream(self.name).random() < self.share else draft


class Empty(Variation):
    """A graph in which tensors may be empty; only in tests with IEEE edge values."""

    name, setting = "empty", "empty_share"

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return config.edges

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        if rng.random() >= self.share:
            return plan
        config = replace(plan.config, sizes=replace(plan.config.sizes, empty=NOTHING))
        return replace(plan, config=config, variations=(*plan.variations, self.name))


class Skeletons(Variation):
    """A large part of a deployed model (skeleton), planted in place of a motif."""

    name, setting = "skeleton", "skeleton_share"

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        if test.index is None or _keeps_to_focus(test):
            return plan
        return replace(plan, turns=skeleton_turns(test.catalog, test.seed, test.index, self.share))


class Motifs(Variation):
    """Patterns that optimisers look for (motifs), planted by turns.

    With a focus, only every second graph begins with the motif of its turn.
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
        aimed = bool(test.config.focus)
        return replace(plan, turns=motif_turns(test.catalog, test.seed, test.turn, aimed))

    def grown(
        self, draft: CaseDraft, plan: GraphPlan, made: Generated, rng: random.Random
    ) -> CaseDraft:
        kinds = {name: name.partition(MISSED)[0] in self.skeletons for name in made.motifs}
        skeleton = Skeletons.name
        return draft.named(*(f"{skeleton if kinds[n] else self.name}:{n}" for n in made.motifs))


def _keeps_to_focus(test: VariedTest) -> bool:
    """Whether the graph begins with an operator of the focus, and so has no motif turn."""
    return bool(test.config.focus) and bool(test.turn % 2)


class Edges(Variation):
    """Inputs with NaN, infinities, signed zeros, subnormals; all operators define their results."""

    name, setting, probes = "edges", "edge_share", True

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return config.edges

    @classmethod
    def chosen(cls, config: CaseConfig, seed: int, index: int) -> bool:
        draw = zlib.crc32(f"{seed}/{index}/edges".encode()) / 2**32
        return not config.edges and draw < config.edge_share

    @classmethod
    def configured(cls, config: CaseConfig) -> CaseConfig:
        return replace(config, edges=True, rewrites=config.rewrites or 0.0)

    def fed(self, draft: CaseDraft, rng: random.Random) -> CaseDraft:
        own, found = random.Random(rng.random()), draft.found
        given = at_edges(draft.graph, own, found.inputs)
        try:
            outputs = expected(draft.graph, {**given, **found.weights})
        except (ArithmeticError, RuntimeError):  # an integer divided by zero
            return draft
        return replace(draft, found=replace(found, inputs=given, outputs=outputs)).named(self.name)
