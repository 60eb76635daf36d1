"""Learns from tests what generation is to do more often.

Two kinds of results are worth more of the same. **Expressivity**: nodes of an operator that differ
from all earlier ones (operator, attributes, input types) make the operator more frequent.
**Novelty**: for a sample of the tests, compilers name the passes that changed the model; the first
time that a pass changes a certain operator with a certain dtype is a reward for everything that the
test was made of. Operators, motifs, dtypes and the ways to make a graph are the arms of a bandit:
each has an upper confidence bound on its reward, for which old tests count less and less
(discounted UCB), and frequencies follow these bounds within limits, so that none starves. The tests
with the largest rewards are kept and mutated.

Everything here is a function of the tests of earlier epochs, in the order of their indexes.
Source: GenCoG (ISSTA 2023) for expressivity; Garivier and Moulines, On Upper-Confidence Bound
Policies for Switching Bandit Problems (ALT 2011), for the discount.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nnfuzz.backend.outcome import parsed_pass
from nnfuzz.generate.emphasis import NO_EMPHASIS, Emphasis, KeptCase
from nnfuzz.ir.features import Features
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.metrics.patterns import PassPattern, pass_patterns
from nnfuzz.operators.motif import pattern_name

DISCOUNT = 0.9
"""Factor on the weight of earlier tests at each epoch: a half after seven of them."""
CONFIDENCE = 0.25
"""Factor on the width of confidence bounds; rewards are scaled to a mean of 1."""
POWER = 1.0
"""Exponent of a bound's ratio to the mean of all bounds: how much better arms are preferred."""
PRIOR = 8.0
"""Tests of average reward that every arm begins with, since the first few tests say little."""
LEAST, MOST = 0.25, 4.0
"""Limits of a factor on a frequency: no arm starves, none takes over."""
KEPT = 16
"""Number of cases that are kept for mutation; their graphs are part of an epoch's
configuration."""
MOST_NODES = 40
"""Size limit of a kept graph, including the nodes that mutation has added."""
FIRST_SHARE, LEAST_SHARE, MOST_SHARE = 0.1, 0.02, 0.5
"""Share of the tests that mutate kept cases: while their rewards are unknown, at least, at most."""
DIGEST_BITS = 27
"""Index width of the table of vertices (16 MB): after ten million vertices, 7 % of the new ones are
taken for old."""


@dataclass(frozen=True)
class CoverageObservation:
    """The observations of one test that guidance learns from.

    passes: by compiler, the passes that changed the model; None if they were not read. mutated:
    whether the test was made from a kept case. kept: the test as a case to mutate; None if it
    cannot be mutated. items: of the graph, as in nnfuzz.records.rows.Observed.
    """

    index: int
    features: Features
    motifs: tuple[str, ...] = ()
    passes: Mapping[str, tuple[str, ...]] | None = None
    exporter: str = ""
    mutated: bool = False
    kept: KeptCase | None = None
    items: tuple[str, ...] = ()


class Feedback(Protocol):
    """Learns from tests what generation is to do more often."""

    @property
    def keeps(self) -> Collection[int]:
        """Indexes of tests whose graphs may be needed again."""

    def observe(self, tests: Iterable[CoverageObservation]) -> None:
        """Learns from the tests of an epoch, in the order of their indexes."""

    def emphasis(self, without: Collection[SupportKey] = ()) -> Emphasis:
        """What the next epoch does more often. without: items that it must not contain."""


class NoFeedback:
    """Leaves generation unchanged."""

    keeps: Collection[int] = ()

    def observe(self, tests: Iterable[CoverageObservation]) -> None:
        """Learns nothing."""

    def emphasis(self, without: Collection[SupportKey] = ()) -> Emphasis:
        return NO_EMPHASIS


@dataclass
class _Arms:
    """The arms of one kind, each with its discounted tests and rewards."""

    tests: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    rewards: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def age(self) -> None:
        """Begins another epoch."""
        for table in (self.tests, self.rewards):
            for name in table:
                table[name] *= DISCOUNT

    def add(self, name: str, reward: float, weight: float = 1.0) -> None:
        self.tests[name] += weight
        self.rewards[name] += reward

    def bounds(self) -> dict[str, float]:
        """The upper confidence bound of each arm's reward, as a multiple of the mean reward."""
        total = math.fsum(self.tests.values())
        mean = math.fsum(self.rewards.values()) / total if total else 0.0
        if not mean:
            return {}
        wide = CONFIDENCE * math.sqrt(math.log(max(total, math.e)))
        return {
            name: (self.rewards[name] / mean + PRIOR) / (tests + PRIOR)
            + wide / math.sqrt(tests + PRIOR)
            for name, tests in self.tests.items()
        }

    def factors(self) -> dict[str, float]:
        """The factor on each arm's frequency: its bound over the mean of all, within limits."""
        bounds = self.bounds()
        mean = math.fsum(bounds.values()) / len(bounds) if bounds else 1.0
        return {name: clamped((bound / mean) ** POWER) for name, bound in bounds.items()}


class Guidance:
    """Learns by the two rewards of this module's description."""

    def __init__(self) -> None:
        self._vertices = _Table()
        self._patterns: set[PassPattern] = set()
        self._read: Counter[str] = Counter()
        """By compiler, the tests whose passes were read."""
        self._changed: Counter[tuple[str, str]] = Counter()
        """By compiler and pass, the tests that it changed. The reward is the information of such a
        change: none for a pass that changes every model."""
        self._fresh = _Arms()  # expressivity: per operator, nodes and new vertices among them
        self._operators, self._dtypes, self._motifs = _Arms(), _Arms(), _Arms()
        self._ways, self._planted = _Arms(), _Arms()
        self._kept: list[tuple[float, KeptCase, frozenset[str]]] = []

    def observe(self, tests: Iterable[CoverageObservation]) -> None:
        arms = (self._fresh, self._operators, self._dtypes, self._motifs, self._ways, self._planted)
        for each in arms:
            each.age()
        self._kept = [(score * DISCOUNT, case, items) for score, case, items in self._kept]
        for test in tests:
            for node in test.features.nodes:
                self._fresh.add(node.op, float(self._vertices.add(int(node.vertex, 16))))
            if test.passes is not None:
                self._learn(test, test.passes)
        self._kept = heapq.nlargest(KEPT, self._kept, key=lambda kept: (kept[0], kept[1].index))

    @property
    def keeps(self) -> Collection[int]:
        return {case.index for _, case, _ in self._kept}

    def emphasis(self, without: Collection[SupportKey] = ()) -> Emphasis:
        avoided = {str(key.signature) for key in without}
        kept = tuple(case for _, case, items in self._kept if avoided.isdisjoint(items))
        novelty, fresh = self._operators.factors(), self._fresh.factors()
        names = sorted(fresh.keys() | novelty.keys())
        operators = {
            name: clamped(novelty.get(name, 1.0) * math.sqrt(fresh.get(name, 1.0)))
            for name in names
        }
        return Emphasis(
            operators=_rounded(operators),
            motifs=_rounded(self._motifs.factors()),
            dtypes=_rounded(self._dtypes.factors()),
            planted=self._planted.factors().get("some", 1.0),
            mutated=round(self._share(), 3) if kept else 0.0,
            kept=kept,
        )

    def _learn(self, test: CoverageObservation, passes: Mapping[str, tuple[str, ...]]) -> None:
        """Rewards the parts of a test for patterns that a pass changes for the first time."""
        self._read.update(passes.keys())
        for compiler, every in passes.items():
            self._changed.update({(compiler, parsed_pass(one)[0]) for one in every})
        by_operator: defaultdict[str, float] = defaultdict(float)
        by_dtype: defaultdict[str, float] = defaultdict(float)
        worth = 0.0
        for pattern, nodes in sorted(pass_patterns(passes, test.features).items()):
            if pattern not in self._patterns:
                self._patterns.add(pattern)
                compiler, name, _, dtype = pattern
                reward = math.log2((self._read[compiler] + 1) / self._changed[compiler, name])
                worth += reward
                by_dtype[dtype] += reward
                for op in {node.op for node in nodes}:
                    by_operator[op] += reward
        nodes = test.features.nodes
        for op in sorted({node.op for node in nodes}):
            self._operators.add(op, by_operator[op])
        for dtype in sorted({node.dtypes.partition(",")[0] for node in nodes}):
            self._dtypes.add(dtype, by_dtype[dtype])
        for motif in sorted(set(map(pattern_name, test.motifs))):
            self._motifs.add(motif, worth)
        self._ways.add("mutate" if test.mutated else "make", worth)
        self._planted.add("some" if test.motifs else "none", worth)
        if worth and test.kept and len(test.kept.graph.nodes) <= MOST_NODES:
            self._kept.append((worth, test.kept, frozenset(test.items)))

    def _share(self) -> float:
        """The share of the tests that mutate kept cases, from the bounds of both ways."""
        bounds = self._ways.bounds()
        if len(bounds) < 2:
            return FIRST_SHARE
        share = FIRST_SHARE * (bounds["mutate"] / bounds["make"]) ** 2
        return min(MOST_SHARE, max(LEAST_SHARE, share))


class _Table:
    """A set of 32-bit digests in a fixed amount of memory; it may take a new one for an old one."""

    def __init__(self) -> None:
        self._bits = bytearray(1 << (DIGEST_BITS - 3))

    def add(self, digest: int) -> bool:
        """Adds a digest; returns whether it is new."""
        place, bit = divmod(digest & ((1 << DIGEST_BITS) - 1), 8)
        new = not self._bits[place] >> bit & 1
        self._bits[place] |= 1 << bit
        return new


def clamped(factor: float) -> float:
    """The nearest factor within the limits."""
    return min(MOST, max(LEAST, factor))


def _rounded(factors: Mapping[str, float]) -> dict[str, float]:
    """The factors for a configuration, without those that change nothing."""
    rounded = {name: round(factor, 3) for name, factor in sorted(factors.items())}
    return {name: factor for name, factor in rounded.items() if factor != 1.0}
