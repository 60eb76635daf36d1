"""Selects tests greedily: each time the one with the most new coverage for its cost.

Each kind of coverage (nnfuzz.corpus.coverage) has the same weight, which its features share. So the
few coarse features, such as operators, come before the many fine ones, and no kind needs a factor.
The cost of a test is the largest share of a budget that it uses. Greedy choice reaches at least
1 - 1/e of the best possible coverage under a budget of models (Nemhauser, Wolsey, Fisher 1978).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nnfuzz.corpus.coverage import Feature


@dataclass(frozen=True)
class SelectableModel:
    """A test that may be chosen. size: in bytes. seconds: spent in the compiler."""

    name: str
    features: frozenset[Feature]
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Budget:
    """The largest number of models, of bytes in their files, and of seconds in the compiler."""

    count: float = math.inf
    size: float = math.inf
    seconds: float = math.inf

    def cost(self, candidate: SelectableModel) -> float:
        """The largest share of a budget that a test uses; 1 for every test without a budget."""
        shares = (1 / self.count, candidate.size / self.size, candidate.seconds / self.seconds)
        return max(shares) or 1.0

    def without(self, candidate: SelectableModel) -> Budget:
        """The rest of the budget; negative if the test does not fit."""
        return Budget(self.count - 1, self.size - candidate.size, self.seconds - candidate.seconds)

    @property
    def fits(self) -> bool:
        """Whether no part of the budget is exceeded."""
        return self.count >= 0 and self.size >= 0 and self.seconds >= 0


def choose(
    candidates: Sequence[SelectableModel], budget: Budget, first: Sequence[SelectableModel] = ()
) -> list[SelectableModel]:
    """Chooses candidates one by one while one adds coverage and fits; returns them in that order.

    first: tests that are chosen already; they use a part of the budget.
    """
    every = frozenset[Feature]().union(*(c.features for c in (*first, *candidates)))
    sizes = Counter(kind for kind, _ in every)
    covered, left = set[Feature](), budget
    for candidate in first:
        covered |= candidate.features
        left = left.without(candidate)

    def value(candidate: SelectableModel) -> float:
        """The coverage that a candidate would add, for its cost."""
        new = candidate.features - covered
        return math.fsum(1 / sizes[kind] for kind, _ in new) / budget.cost(candidate)

    heap = [(-value(candidate), i) for i, candidate in enumerate(candidates)]
    heapq.heapify(heap)
    chosen: list[SelectableModel] = []
    while heap:
        _, i = heapq.heappop(heap)
        candidate = candidates[i]
        if not left.without(candidate).fits:
            continue
        current = value(candidate)
        if heap and current < -heap[0][0]:  # an earlier choice has covered a part of it
            heapq.heappush(heap, (-current, i))
        elif current > 0:
            chosen.append(candidate)
            covered |= candidate.features
            left = left.without(candidate)
    return chosen
