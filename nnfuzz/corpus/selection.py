"""Selects tests greedily: each time the one with the most new coverage for its cost.

Each kind of coverage has the same weight, which its features share. So the few coarse features,
such as operators, come before the many fine ones, and no kind needs a factor. The cost of a test is
the largest share of a budget that it uses. Greedy choice reaches at least 1 - 1/e of the best
possible coverage under a budget of models (Nemhauser, Wolsey, Fisher 1978).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nnfuzz.corpus.layout import TestFolder
from nnfuzz.ir.features import features
from nnfuzz.ir.view import GraphView

KINDS = {
    "operator": "operators",
    "dtype": "operators with the dtypes of their inputs",
    "rank": "operators with the rank of their first input",
    "value": "values of attributes, per operator and dtypes",
    "edge": "pairs of operators of which one reads the other",
    "vertex": "operators with attributes and shapes",
    "pass": "passes of a compiler that change something",
}
"""Kinds of features, with descriptions."""
Feature = tuple[str, str]
"""A kind and a name."""


def covered(graph: GraphView, passes: Iterable[str] = ()) -> frozenset[Feature]:
    """The features of a model. passes: written as "COMPILER: PASS"."""
    own = features(graph)
    named = {
        "operator": own.operators(),
        "dtype": (f"{op}({dtypes})" for op, dtypes in own.operator_dtypes()),
        "rank": (f"{op} of rank {rank}" for op, rank in own.operator_ranks()),
        "value": own.attribute_values(),
        "edge": (f"{a}->{b}" for a, b in own.operator_edges()),
        "vertex": own.vertices(),
        "pass": passes,
    }
    return frozenset((kind, name) for kind, names in named.items() for name in names)


def coverage_table(
    kept: Sequence[Iterable[Feature]], all_: Sequence[Iterable[Feature]]
) -> dict[str, list[int]]:
    """The number of different features by kind: those of the kept tests, and those of all tests."""
    some, whole = (Counter(kind for kind, _ in set().union(*sets)) for sets in (kept, all_))
    return {kind: [some[kind], whole[kind]] for kind in KINDS if whole[kind]}


@dataclass(frozen=True)
class SelectableModel:
    """A test that may be chosen. size: in bytes. seconds: spent in the compiler. test: its folder,
    which is no part of the choice.
    """

    name: str
    features: frozenset[Feature]
    size: int = 0
    seconds: float = 0.0
    test: TestFolder = field(default=TestFolder(Path(), ""), compare=False)


@dataclass(frozen=True)
class Budget:
    """The largest number of models, of bytes in their files, and of seconds in the compiler."""

    count: float = math.inf
    size: float = math.inf
    seconds: float = math.inf

    def cost(self, model: SelectableModel) -> float:
        """The largest share of a budget that a test uses; 1 for every test without a budget."""
        shares = (1 / self.count, model.size / self.size, model.seconds / self.seconds)
        return max(shares) or 1.0

    def holds(self, models: Sequence[SelectableModel]) -> bool:
        """Whether no part of the budget is exceeded."""
        size, seconds = sum(m.size for m in models), sum(m.seconds for m in models)
        return len(models) <= self.count and size <= self.size and seconds <= self.seconds


def choose(candidates: Sequence[SelectableModel], budget: Budget) -> list[SelectableModel]:
    """Chooses candidates while one adds coverage and fits; returns them in that order."""
    every = frozenset[Feature]().union(*(c.features for c in candidates))
    sizes = Counter(kind for kind, _ in every)
    missing, left = set(every), list(candidates)
    chosen: list[SelectableModel] = []

    def value(candidate: SelectableModel) -> float:
        """The coverage that a candidate would add, for its cost."""
        new = candidate.features & missing
        return math.fsum(1 / sizes[kind] for kind, _ in new) / budget.cost(candidate)

    while left := [c for c in left if c.features & missing and budget.holds([*chosen, c])]:
        best = max(left, key=value)
        chosen.append(best)
        missing -= best.features
    return chosen
