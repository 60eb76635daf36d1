"""The symbolic engine: insertion over whole-graph integer constraints (NNSmith, Algorithm 1).

Dimensions and attributes stay symbolic until the graph is complete; then attribute binning moves
them away from the values that solvers prefer (Algorithm 2).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from nnfuzz.generate.binning import rebin
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.coverage_target import CoverageTarget
from nnfuzz.generate.engine import Generated, Kept
from nnfuzz.generate.motif_turns import MotifTurn
from nnfuzz.generate.moves import GraphGrower
from nnfuzz.generate.resizing import Resizable
from nnfuzz.generate.splice import splice
from nnfuzz.operators.draw import Draw
from nnfuzz.solve.session import SolverSession


class Symbolic:
    """See Engine. A later node can still change the sizes of earlier ones."""

    def __init__(self, catalog: Catalog, config: GenerateConfig) -> None:
        self.catalog, self.config = catalog, config

    def next(
        self,
        rng: random.Random,
        corpus: Sequence[Kept] = (),
        target: CoverageTarget | None = None,
        turns: Sequence[MotifTurn] = (),
    ) -> Generated:
        config = self.config
        start = rng.choice(corpus).graph if corpus else None
        draw = Draw(rng, config.sizes)
        with SolverSession(draw, config.solver_budget, config.resources) as session:
            moves = GraphGrower(self.catalog, config, session, turns)
            if start:
                moves.adopt(start)
            elif target:
                moves.begin(target)
            moves.grow()
            rebin(moves.growth, session, config.bins)
            symbolic = moves.finish()
            graph = symbolic.concrete(session.env)
            resizable = None
            if start:
                splice(graph, start.values, draw)
            else:
                resizable = Resizable(symbolic, session.constraints, session.env, config.sizes)
            made = session.checks, moves.attempts, tuple(moves.planted)
            return Generated(graph, *made, resizable)
