"""What generation shall do more often, by what tests have shown so far.

Two things are worth more of the same. **Expressivity**: an operator whose latest nodes were mostly
different from all before (operator, attributes, input types) has more to show than one that repeats
itself. **Novelty**: compilers tell, for a sample of the tests, which passes changed the model; a
pass that is seen with an operator and dtype for the first time is a reward for what the test was
made of. Operators, motifs, dtypes and the ways to make a graph are the arms of a bandit: each has
an upper confidence bound on its reward, of which old tests count less and less (discounted UCB),
and frequencies follow these bounds within limits, so that none starves. The tests that
showed most are kept and mutated.

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

DISCOUNT = 0.9
"""Of what an earlier epoch counts in the next one: a half after seven of them."""
CONFIDENCE = 0.25
"""Factor on the width of confidence bounds; rewards are scaled to a mean of 1."""
POWER = 1.0
"""Of a bound's ratio to the mean of all: how much better arms are preferred."""
PRIOR = 8.0
"""Tests of average reward that every arm is taken to have had: a few of them say little."""
LEAST, MOST = 0.25, 4.0
"""Of a factor on a frequency: none starves, none takes over."""
KEPT = 16
"""Cases that are kept for mutation: their graphs are part of the configuration of an epoch."""
MOST_NODES = 40
"""Of a kept graph, with those that mutation has added."""
FIRST_SHARE, LEAST_SHARE, MOST_SHARE = 0.1, 0.02, 0.5
"""Of tests that mutate kept cases: before it is known what they give, at least and at most."""
SEEN_BITS = 27
"""Of the table of vertices: 16 MB; after ten million of them, 7 % of new ones look old."""


@dataclass(frozen=True)
class CoverageObservation:
    """What guidance learns from one test.

    passes: by compiler, those that changed the model; None where nobody looked. graph: to be kept
    if the test has shown much; None if it is not for keeping. items: of the graph, as in
    nnfuzz.records.rows.Observed. mutated: whether it was made from a kept case.
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
    """What learns from tests what generation shall do more often."""

    @property
    def keeps(self) -> Collection[int]:
        """Indexes of tests whose graphs may be needed again."""

    def observe(self, tests: Iterable[CoverageObservation]) -> None:
        """Takes the tests of an epoch, in the order of their indexes."""

    def emphasis(self, without: Collection[SupportKey] = ()) -> Emphasis:
        """What the next epoch does more often. without: items that it must not have."""


class NoFeedback:
    """Lets generation be as it is."""

    keeps: Collection[int] = ()

    def observe(self, tests: Iterable[CoverageObservation]) -> None:
        """Learns nothing."""

    def emphasis(self, without: Collection[SupportKey] = ()) -> Emphasis:
        return NO_EMPHASIS


@dataclass
class _Arms:
    """Arms of one kind: discounted tests and rewards of each."""

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
        """The upper confidence bound of each arm's reward, as a multiple of the mean of all."""
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
        """On frequencies, by arm: bounds over their mean, within limits."""
        bounds = self.bounds()
        mean = math.fsum(bounds.values()) / len(bounds) if bounds else 1.0
        return {name: clamped((bound / mean) ** POWER) for name, bound in bounds.items()}


class Guidance:
    """The one implementation of Feedback that has an opinion."""

    def __init__(self) -> None:
        self._vertices = _Table()
        self._patterns: set[PassPattern] = set()
        self._looked: Counter[str] = Counter()
        self._fired: Counter[tuple[str, str]] = Counter()
        """Tests of which passes of a compiler were read, and those in which one changed something:
        what is worth is the information in that, nothing for a pass that every model meets."""
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
        """Rewards what a test consists of for what passes have changed for the first time."""
        self._looked.update(passes.keys())
        for compiler, every in passes.items():
            self._fired.update({(compiler, parsed_pass(told)[0]) for told in every})
        by_operator: defaultdict[str, float] = defaultdict(float)
        by_dtype: defaultdict[str, float] = defaultdict(float)
        worth = 0.0
        for found, nodes in sorted(pass_patterns(passes, test.features).items()):
            if found not in self._patterns:
                self._patterns.add(found)
                compiler, name, _, dtype = found
                reward = math.log2((self._looked[compiler] + 1) / self._fired[compiler, name])
                worth += reward
                by_dtype[dtype] += reward
                for op in {node.op for node in nodes}:
                    by_operator[op] += reward
        nodes = test.features.nodes
        for op in sorted({node.op for node in nodes}):
            self._operators.add(op, by_operator[op])
        for dtype in sorted({node.dtypes.partition(",")[0] for node in nodes}):
            self._dtypes.add(dtype, by_dtype[dtype])
        for motif in sorted({name.rstrip("~") for name in test.motifs}):
            self._motifs.add(motif, worth)
        self._ways.add("mutate" if test.mutated else "make", worth)
        self._planted.add("some" if test.motifs else "none", worth)
        if worth and test.kept and len(test.kept.graph.nodes) <= MOST_NODES:
            self._kept.append((worth, test.kept, frozenset(test.items)))

    def _share(self) -> float:
        """Of the tests that mutate kept cases: as the bounds of both ways are to each other."""
        bounds = self._ways.bounds()
        if len(bounds) < 2:
            return FIRST_SHARE
        share = FIRST_SHARE * (bounds["mutate"] / bounds["make"]) ** 2
        return min(MOST_SHARE, max(LEAST_SHARE, share))


class _Table:
    """A set of 32-bit digests in a fixed amount of memory; it forgets nothing, and may err."""

    def __init__(self) -> None:
        self._bits = bytearray(1 << (SEEN_BITS - 3))

    def add(self, digest: int) -> bool:
        """Whether it was not there."""
        place, bit = divmod(digest & ((1 << SEEN_BITS) - 1), 8)
        new = not self._bits[place] >> bit & 1
        self._bits[place] |= 1 << bit
        return new


def clamped(factor: float) -> float:
    """The factor within its limits."""
    return min(MOST, max(LEAST, factor))


def _rounded(factors: Mapping[str, float]) -> dict[str, float]:
    """For the configuration; what is left as it is need not be said."""
    told = {name: round(factor, 3) for name, factor in sorted(factors.items())}
    return {name: factor for name, factor in told.items() if factor != 1.0}
