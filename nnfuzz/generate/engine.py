"""The contract of engines, which generate graphs one after the other; and those that insert one
operator after the other: direct, concolic and symbolic.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nnfuzz.generate.binning import rebin
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.moves import GraphGrower
from nnfuzz.generate.resizing import Resizable
from nnfuzz.generate.splice import splice
from nnfuzz.generate.turns import CoverageTarget, MotifTurn
from nnfuzz.ir.graph import Graph
from nnfuzz.operators.draw import Draw
from nnfuzz.solve.session import SolverSession
from nnfuzz.solve.store import DecidedStore

BACKWARD = 0.35
"""Probability of trying backward insertion first, without which nodes rarely compute a weight or a
second operand."""


@dataclass(frozen=True, eq=False)
class Kept:
    """A concrete graph to start from.

    values: tensors by name where they are known, of all values or of none (see nnfuzz.inputs).
    motifs: as of Generated.
    """

    graph: Graph
    values: Mapping[str, Any] = field(default_factory=dict)
    motifs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generated:
    """A generated concrete graph with its cost.

    motifs: names of those in it; with "~" and the kind behind it where it is a near miss.
    resizable: the graph before it became concrete, where that is known. known: tensors of values
    that are as they were in the graph that this one was made from.
    """

    graph: Graph
    solver_checks: int = 0
    attempts: int = 0
    motifs: tuple[str, ...] = ()
    resizable: Resizable | None = None
    known: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """Makes graphs of a catalog's operators under a configuration."""

    def next(
        self,
        rng: random.Random,
        corpus: Sequence[Kept] = (),
        target: CoverageTarget | None = None,
        turns: Sequence[MotifTurn] = (),
    ) -> Generated:
        """A graph, concrete and verified by construction.

        corpus: graphs; generation starts from one of them. target: what to begin with if there is
        none.
        turns: the first of them that fits is planted before other motifs.
        The same arguments and state of `rng` give the same graph.
        """
        ...


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
        moves.grow_from(start, target)
        graph = moves.finish()
        if start:
            splice(graph, start.values, moves.draw)
        return Generated(graph, 0, moves.attempts, tuple(moves.planted))


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
            moves.grow_from(start, target)
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
