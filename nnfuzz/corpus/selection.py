"""From many tests the few that matter: greedily the one that covers most that is new, for its cost.

Each kind of coverage (nnfuzz.corpus.coverage) has the same weight, which its features share. So the
few coarse ones, such as an operator, come before the many fine ones, and no kind needs a factor.
The cost of a test is the largest share of a budget that it takes. Greedy choice reaches at least
1 - 1/e of the best possible coverage under a budget of models (Nemhauser, Wolsey, Fisher 1978).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from nnfuzz.corpus.coverage import Feature


@dataclass(frozen=True)
class Candidate:
    """A test by name. size: in bytes; seconds: of a compiler."""

    name: str
    features: frozenset[Feature]
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Budget:
    """At most so many models, bytes of files, and seconds of a compiler."""

    count: float = math.inf
    size: float = math.inf
    seconds: float = math.inf

    def cost(self, candidate: Candidate) -> float:
        """The largest share of a budget that a test takes; the same for all without budgets."""
        shares = (1 / self.count, candidate.size / self.size, candidate.seconds / self.seconds)
        return max(shares) or 1.0

    def without(self, candidate: Candidate) -> Budget:
        """What is left; negative where the test does not fit."""
        return Budget(self.count - 1, self.size - candidate.size, self.seconds - candidate.seconds)

    @property
    def kept(self) -> bool:
        return self.count >= 0 and self.size >= 0 and self.seconds >= 0


@dataclass
class _Gains:
    """What each candidate would still add."""

    candidates: Sequence[Candidate]
    seen: set[Feature] = field(default_factory=set)

    def __post_init__(self) -> None:
        kinds = Counter(kind for kind, _ in frozenset().union(*self._features()))
        self._weights = {kind: 1 / count for kind, count in kinds.items()}

    def _features(self) -> list[frozenset[Feature]]:
        return [candidate.features for candidate in self.candidates]

    def of(self, number: int) -> float:
        new = self.candidates[number].features - self.seen
        return math.fsum(self._weights[kind] for kind, _ in new)


def select(
    candidates: Sequence[Candidate], budget: Budget, first: Sequence[Candidate] = ()
) -> list[Candidate]:
    """Candidates in the order in which they were chosen, as long as one adds something and fits.

    first: tests that are chosen already; they take their part of the budget.
    """
    gains = _Gains([*first, *candidates])
    left = budget
    for candidate in first:
        gains.seen |= candidate.features
        left = left.without(candidate)
    costs = [budget.cost(candidate) for candidate in gains.candidates]
    heap = [(-gains.of(i) / costs[i], i) for i in range(len(first), len(costs))]
    heapq.heapify(heap)
    chosen: list[Candidate] = []
    while heap:
        _, i = heapq.heappop(heap)
        candidate = gains.candidates[i]
        if not left.without(candidate).kept:
            continue
        value = gains.of(i) / costs[i]
        if heap and value < -heap[0][0]:  # what was chosen since has taken some of it
            heapq.heappush(heap, (-value, i))
        elif value > 0:
            chosen.append(candidate)
            gains.seen |= candidate.features
            left = left.without(candidate)
    return chosen
