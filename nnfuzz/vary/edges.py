"""Variation of inputs: values at the edges of their dtypes."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

from nnfuzz.inputs.edges import at_edges, expected
from nnfuzz.vary.variation import CaseDraft, Variation

if TYPE_CHECKING:
    from nnfuzz.testcase.case import CaseConfig


class Edges(Variation):
    """Inputs with NaN, infinities, signed zeros and subnormals; operators that define results."""

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
