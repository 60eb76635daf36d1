"""The motif that a test case tries to plant first, so that each one and each of its misses occurs.

Random picks leave some kinds of near misses out even after 20,000 models: some kinds fit a motif
only with certain shapes. Most test cases therefore have turns: three in ten plant a certain kind of
near miss of a motif, two in ten a certain motif as it is. The order is a permutation that depends
on the campaign's seed, and the turn follows from the index alone, whatever the exporter and the
opset admit.

Skeletons take turns of their own: of so many test cases in a row as make one of their share, one
has a skeleton in place of its turn. A skeleton of twice the weight has twice as many turns.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nnfuzz.generate.arrangements import Arrangement
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.coverage_target import turn_number
from nnfuzz.generate.misses import KINDS
from nnfuzz.generate.motifs import EXACT, NearMiss
from nnfuzz.generate.pairs import Pair
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.motif import MISSED, Motif

CYCLE = 10
"""Length of the cycle of test cases in which some have turns; none of these begins with a coverage
target (nnfuzz.generate.coverage_target)."""
MISSES, EXACTS = (0, 4, 7), (5, 9)
"""The positions in the cycle of near misses of motifs, and of motifs as they are."""
ALTERNATIVES = 2
"""Turns of which a test case takes the first that fits: many kinds of near misses do not exist of a
motif, and some motifs have an operator that an opset lacks."""
ATTEMPTS = 10
"""Attempts at each of them."""
MUTATED = 1 / 3
"""Probability that a skeleton is planted as a near miss."""
TURNS_OF_ONE = 2
"""Turns of a skeleton of weight 1 in a cycle of all of them."""


@dataclass(frozen=True)
class MotifTurn:
    """A motif to plant. kind: of near miss (nnfuzz.generate.misses); "": the motif as it is."""

    motif: Motif
    kind: str = ""

    def ways(self, draw: Draw) -> Iterator[NearMiss]:
        """How to plant it, the first that succeeds being taken; the last ways may miss it in any
        of its operators."""
        if self.motif.skeleton and draw.chance(MUTATED):
            for _ in range(ATTEMPTS):
                yield NearMiss(draw.shuffled(tuple(KINDS)), draw.integer(1, self.motif.size))
        for attempt in range(ATTEMPTS):
            place = 1 if attempt else draw.integer(1, self.motif.size)
            yield NearMiss((self.kind,), place) if self.kind else EXACT


def skeleton_turns(catalog: Catalog, seed: int, index: int, share: float) -> Sequence[MotifTurn]:
    """The skeletons of which a test case takes the first that fits; none for most test cases.

    share: of the test cases that have one.
    """
    number = _skeleton_number(seed, index, share)
    if number is None or not catalog.skeletons:
        return ()
    known = {motif.name: motif for motif in catalog.skeletons}
    order = _permuted_skeletons(seed, tuple((m.name, turns_of(m)) for m in known.values()))
    chosen = (order[(number + i) % len(order)] for i in range(ALTERNATIVES))
    return [MotifTurn(known[name]) for name in dict.fromkeys(chosen)]


def turns_of(skeleton: Motif) -> int:
    """How many turns a skeleton has in a cycle of all of them."""
    return max(1, round(skeleton.weight * TURNS_OF_ONE))


def motif_turns(catalog: Catalog, seed: int, index: int) -> Sequence[MotifTurn]:
    """The turns of which a test case takes the first that fits; none for five test cases in ten."""
    for kinds, positions in ((tuple(KINDS), MISSES), (("",), EXACTS)):
        number = turn_number(index, CYCLE, positions)
        if number is not None:
            motifs = _turning(catalog.motifs)
            order = _permuted(seed, tuple(motifs), kinds)
            # Alternatives are far from each other, so that no turn follows many failing ones.
            places = (number + i * len(order) // ALTERNATIVES for i in range(ALTERNATIVES))
            chosen = (order[place % len(order)] for place in places if order)
            return [MotifTurn(motifs[name], kind) for name, kind in dict.fromkeys(chosen)]
    return ()


def _skeleton_number(seed: int, index: int, share: float) -> int | None:
    """How many test cases before an index have a skeleton; None if that of the index has none.

    The indexes are cut into stretches, one of which has one at a random position.
    """
    if not share:
        return None
    number = int(index * share)
    first, end = math.ceil(number / share), math.ceil((number + 1) / share)
    draw = zlib.crc32(f"{seed}/{number}/skeleton".encode()) / 2**32
    return number if index == first + int(draw * (end - first)) else None


@lru_cache(maxsize=64)
def _turning(motifs: tuple[Motif, ...]) -> Mapping[str, Motif]:
    """The motifs that have turns, by name: pairs are too many, an arrangement is frequent anyway,
    and a weight of 0 switches a motif off.
    """
    left_out = Pair, Arrangement
    return {m.name: m for m in motifs if m.weight and not isinstance(m.write, left_out)}


@lru_cache(maxsize=64)
def _permuted_skeletons(seed: int, turns: tuple[tuple[str, int], ...]) -> Sequence[str]:
    """Each skeleton as often as it has turns, in an order that depends on the seed."""
    every = [(name, number) for name, count in turns for number in range(count)]
    return [name for name, _ in sorted(every, key=lambda t: _place(seed, f"{t[0]}{MISSED}{t[1]}"))]


def _place(seed: int, name: str) -> int:
    return zlib.crc32(f"{seed}/{name}".encode())


@lru_cache(maxsize=64)
def _permuted(
    seed: int, motifs: tuple[str, ...], kinds: tuple[str, ...]
) -> Sequence[tuple[str, str]]:
    """Every motif with every kind of near miss, in an order that depends on the seed."""
    combinations = [(name, kind) for name in motifs for kind in kinds]
    return sorted(combinations, key=lambda c: _place(seed, MISSED.join(c)))
