"""Engines without a solver: sizes and attributes of a node are numbers when it is inserted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.coverage_target import CoverageTarget
from nnfuzz.generate.engine import Generated, Kept
from nnfuzz.generate.motif_turns import MotifTurn
from nnfuzz.generate.moves import GraphGrower
from nnfuzz.generate.splice import splice
from nnfuzz.solve.store import DecidedStore

BACKWARD = 0.35
"""Probability of trying backward insertion first, without which nodes rarely compute a weight or a
second operand."""


@dataclass(frozen=True)
class Direct:
    """See Engine. eager: a first attempt draws numbers and then evaluates the constraints; if they
    fail, propagation finds values for the next attempt. Otherwise propagation finds all values.
    """

    catalog: Catalog
    config: GenerateConfig
    eager: bool = True

    def next(
        self,
        rng: random.Random,
        corpus: Sequence[Kept] = (),
        target: CoverageTarget | None = None,
        turns: Sequence[MotifTurn] = (),
    ) -> Generated:
        start = rng.choice(corpus).graph if corpus else None
        store = DecidedStore(rng, self.config.sizes, self.eager)
        config = replace(self.config, backward=BACKWARD) if self.eager else self.config
        moves = GraphGrower(self.catalog, config, store, turns)
        if start:
            moves.adopt(start)
        elif target:
            moves.begin(target)
        moves.grow()
        graph = moves.finish()
        if start:
            splice(graph, start.values, moves.draw)
        return Generated(graph, 0, moves.attempts, tuple(moves.planted))
