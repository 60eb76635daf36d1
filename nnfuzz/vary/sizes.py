"""Variations of sizes and opsets: symbolic dimensions, large and empty tensors, older opsets."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.generate.engine import Generated
from nnfuzz.generate.large import LARGE
from nnfuzz.generate.resizing import Resizable
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.sizes import join_copies
from nnfuzz.materialize.dynamic import SizeError, emit_dynamic
from nnfuzz.materialize.older import WHOLE
from nnfuzz.materialize.opsets import DYNAMIC, opset_of
from nnfuzz.vary.variation import CaseDraft, GraphPlan, Variation, VariedTest

if TYPE_CHECKING:
    from nnfuzz.testcase.case import CaseConfig

DIMENSIONS = 4
"""How many dimensions of a graph may become symbolic ones before it is exported without any."""
NOTHING = 0.1
"""Probability that a fresh dimension of a tensor that may be empty is 0."""
OLD = 0.1
"""Share of the tests whose models have an opset before WHOLE, where opsets are drawn."""


class Opset(Variation):
    """The opset of a model is not the newest one that its exporter writes."""

    name = "opset"

    @staticmethod
    def in_order(writers: tuple[str, ...], seed: int, index: int) -> Iterator[str]:
        """Writers in the order in which the test case of an index tries them: in a share OLD of the
        tests those of opsets before WHOLE, which lack many operators, are the first.
        """
        old = tuple(name for name in writers if 0 < opset_of(name) < WHOLE)
        others = tuple(name for name in writers if name not in old)
        first = zlib.crc32(f"{seed}/{index}/old".encode()) / 2**32 < OLD
        for group in (old, others) if first else (others, old):
            if group:
                start = zlib.crc32(f"{seed}/{index}/opset".encode()) % len(group)
                yield from (*group[start:], *group[:start])

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return config.opset < max(config.drawn, default=0)

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        name = f"{self.name}:{self.config.opset}"
        return replace(plan, variations=(*plan.variations, name))


class Symbolic(Variation):
    """A model with a symbolic dimension, which runs at three sizes."""

    name = setting = "dynamic"

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return True  # it draws in every test, so that its share changes no graph without it

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        drawn = not plan.corpus and rng.random() < self.share
        return replace(plan, symbolic=drawn and self.config.opset >= WHOLE)

    def grown(
        self, draft: CaseDraft, plan: GraphPlan, made: Generated, rng: random.Random
    ) -> CaseDraft:
        if not plan.symbolic or not made.resizable:
            return draft
        whole = _at_several_sizes(made.resizable, rng, self.config.opset)
        if whole is None:
            return draft
        return replace(draft, graph=whole, exporter=DYNAMIC).named(self.name)


def _at_several_sizes(resizable: Resizable, rng: random.Random, opset: int) -> Graph | None:
    """The graph at several sizes (nnfuzz.ir.sizes) for which one model is right, if there is one.

    Raises: as `emit_model` does.
    """
    for family in itertools.islice(resizable.families(rng), DIMENSIONS):
        whole = join_copies(family)
        whole.verify()
        types = {name: whole.type(name) for name in whole.weights}
        weights = {name: np.zeros(t.sizes, t.dtype.numpy) for name, t in types.items()}
        try:
            emit_dynamic(whole, weights, opset)
        except SizeError:
            continue
        return whole
    return None


class Large(Variation):
    """A graph with a large tensor, where it is made anew."""

    name = setting = "large"

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return config.engine != "mutate" and super().applies(config)

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        drawn = test.stream("sizes").random() < self.share
        if not drawn or plan.corpus or plan.symbolic:
            return plan
        config = replace(plan.config, sizes=LARGE)
        return replace(plan, config=config, variations=(*plan.variations, self.name))


class Empty(Variation):
    """A graph at edges whose tensors may be empty."""

    name, setting = "empty", "empty_share"

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return config.edges

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        if rng.random() >= self.share:
            return plan
        config = replace(plan.config, sizes=replace(plan.config.sizes, empty=NOTHING))
        return replace(plan, config=config, variations=(*plan.variations, self.name))
