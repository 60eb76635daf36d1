"""The contract of engines, which generate graphs; and the engines that insert one operator after
another: direct and symbolic."""

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
"""Probability of trying backward insertion first. Without it, nodes rarely compute a weight or a
second operand."""


@dataclass(frozen=True, eq=False)
class Kept:
    """A concrete graph from which generation can start.

    values: known tensors by name, of all values of the graph or of none. motifs: as in Generated.
    """

    graph: Graph
    values: Mapping[str, Any] = field(default_factory=dict)
    motifs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generated:
    """A generated concrete graph.

    motifs: names of the motifs in it; a near miss has "~" and its kind after the name. resizable:
    the graph before it became concrete, if the engine had such a graph. known: tensors of values
    that are the same as in the graph that generation started from.
    """

    graph: Graph
    motifs: tuple[str, ...] = ()
    resizable: Resizable | None = None
    known: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """Generates graphs of a catalog's operators."""

    def next(
        self,
        rng: random.Random,
        corpus: Sequence[Kept] = (),
        target: CoverageTarget | None = None,
        turns: Sequence[MotifTurn] = (),
    ) -> Generated:
        """A graph, concrete and valid by construction.

        corpus: graphs, one of which generation starts from. target: the operator to begin with if
        there is no corpus. turns: motifs to insert first, until one fits. The same arguments and
        the same state of `rng` give the same graph.
        """
        ...


@dataclass(frozen=True)
class Direct:
    """An engine that decides every size at once."""

    catalog: Catalog
    config: GenerateConfig

    def next(
        self,
        rng: random.Random,
        corpus: Sequence[Kept] = (),
        target: CoverageTarget | None = None,
        turns: Sequence[MotifTurn] = (),
    ) -> Generated:
        start = rng.choice(corpus).graph if corpus else None
        store = DecidedStore(rng, self.config.sizes)
        config = replace(self.config, backward=BACKWARD)
        moves = GraphGrower(self.catalog, config, store, turns)
        moves.grow_from(start, target)
        graph = moves.finish()
        if start:
            splice(graph, start.values, moves.draw)
        return Generated(graph, tuple(moves.planted))


@dataclass(frozen=True)
class Symbolic:
    """An engine that keeps sizes symbolic, so that a later node can still change earlier ones."""

    catalog: Catalog
    config: GenerateConfig

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
            return Generated(graph, tuple(moves.planted), resizable)
