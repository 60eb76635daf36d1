"""The same graph at other sizes: one dimension of its inputs changes, its weights do not."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnfuzz.ir.expr import BoolExpr, Expr, Var, evaluate, variables
from nnfuzz.ir.graph import Graph
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.solve.propagation import solve

SIZES = 3
"""Sizes at which a model with a symbolic dimension runs: its own, and two more."""
TRIES = 4
"""Values tried for each further size before the dimension is given up."""


@dataclass(frozen=True, eq=False)
class Resizable:
    """A finished graph before it became concrete, with its constraints and a solution (`env`)."""

    graph: Graph
    constraints: Sequence[BoolExpr]
    env: Mapping[Var, int]
    sizes: Sizes

    def families(self, rng: random.Random) -> Iterator[list[Graph]]:
        """For each dimension that can vary alone: the graph at SIZES sizes, its own size first.

        Attributes may differ between the sizes; types of weights do not.
        """
        draw = Draw(rng, self.sizes)
        own = self.graph.concrete(self.env)
        dims = [d for name in self.graph.inputs for d in self.graph.type(name).shape]
        for var in draw.shuffled(variables(*dims)):
            found = self._at_other_sizes(draw, var, own)
            if len(found) == SIZES - 1:
                yield [own, *found]

    def _at_other_sizes(self, draw: Draw, var: Var, own: Graph) -> list[Graph]:
        found: list[Graph] = []
        tried = {self.env[var]}
        for _ in range(TRIES * (SIZES - 1)):
            size = draw.value(var.lo, var.hi)
            if size in tried or len(found) == SIZES - 1:
                continue
            tried.add(size)
            graph = self._at(draw, var, size)
            if graph is not None and self._resized([own, *found], graph):
                found.append(graph)
            elif not found and len(tried) > TRIES:
                break
        return found

    def _at(self, draw: Draw, var: Var, size: int) -> Graph | None:
        """The graph with one variable set to `size`, and the others unchanged if possible."""
        memo: dict[Expr, int] = {}
        env: dict[Var, int] | None = {**self.env, var: size}
        if not all([evaluate(c, env, memo) for c in self.constraints]):  # type: ignore[arg-type]
            wanted = {var: size, **{v: x for v, x in self.env.items() if v is not var}}
            preferences = {v: (x, x) for v, x in wanted.items()}
            env = solve(self.constraints, draw, free=preferences, prefer=preferences)
        return self.graph.concrete(env) if env and env[var] == size else None

    def _resized(self, graphs: Sequence[Graph], other: Graph) -> bool:
        """Whether an input's size differs from that in each graph so far, and no weight's does."""
        shapes = _shapes(other, other.inputs)
        return (
            all(_shapes(graph, graph.inputs) != shapes for graph in graphs)
            and _shapes(graphs[0], other.weights) == _shapes(other, other.weights)
            and all(v.type.numel <= self.sizes.max_numel for v in other.values.values())
        )


def _shapes(graph: Graph, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return [graph.type(name).shape for name in names]
