"""The contract of engines, which generate graphs one after the other."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nnfuzz.generate.coverage_target import CoverageTarget
from nnfuzz.generate.motif_turns import MotifTurn
from nnfuzz.generate.resizing import Resizable
from nnfuzz.ir.graph import Graph


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

        corpus: graphs of which one is started from. target: what to begin with where there is none.
        turns: the first of them that fits is planted before other motifs.
        The same arguments and state of `rng` give the same graph.
        """
        ...
