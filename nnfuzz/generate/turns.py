"""What the graph of a test case begins with: an operator with its dtype and rank, or a motif. All
of them take turns by the index of the test case, so that rare ones occur."""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

from nnfuzz.generate.arrangements import Arrangement
from nnfuzz.generate.catalog import Catalog, OpSignature
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.misses import KINDS
from nnfuzz.generate.motifs import EXACT, MissingOperator, NearMiss, plant
from nnfuzz.generate.pairs import Pair
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Node
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.motif import MISSED, Motif
from nnfuzz.operators.operator import OpSpec
from nnfuzz.solve.store import DecidedStore

TARGET_CYCLE = 5
"""Length of the cycle of test indexes in which coverage targets have fixed positions."""
TURNS = (1, 3)
"""The positions in that cycle whose graphs begin with a coverage target."""
CYCLE = 10
"""Length of the cycle of indexes in which motifs have fixed positions; these test cases have no
coverage target."""
MISSES, EXACTS = (0, 4, 7), (5, 9)
"""Positions in that cycle of test cases with a near miss, and with an exact motif."""
AIMED_MISSES, AIMED_EXACTS = (0, 4, 8), (2, 6)
"""The same with a focus, where every second test case begins with a motif."""
ALTERNATIVES = 2
"""Motifs that a test case tries until one fits: many kinds of near misses do not apply to a motif,
and an opset may lack a motif's operator."""
ATTEMPTS = 10
"""Attempts to insert a motif."""
FURTHER_ATTEMPTS = 2
"""Further attempts at a near miss."""
MUTATED = 1 / 3
"""Probability that a skeleton is inserted as a near miss."""
TURNS_OF_ONE = 2
"""How often a skeleton of weight 1 occurs in a cycle of all skeletons."""


@dataclass(frozen=True)
class CoverageTarget:
    """The operator, dtype and rank with which a graph must begin.

    signatures: those in which one input, or the output, has the dtype. rank: of the first input.
    """

    spec: type[OpSpec]
    signatures: tuple[OpSignature, ...]
    rank: int


class CoverageTargets:
    """The coverage targets of a catalog; test cases take them in turn, by their index."""

    def __init__(self, catalog: Catalog, focus: Collection[str] = ()) -> None:
        """focus: names of operators to which the targets are limited, if any of them is available;
        empty: all operators."""
        self.catalog = catalog
        aimed = {spec: found for spec, found in catalog.signatures.items() if spec.name in focus}
        self._signatures = aimed or catalog.signatures
        self.focused = bool(aimed)

    @cached_property
    def all(self) -> list[CoverageTarget]:
        """A target for every dtype of each required input and output, and for every rank."""
        signatures = self._signatures.items()
        by_operator = [_targets_of(spec, tuple(found)) for spec, found in signatures]  # type: ignore[arg-type]
        # The targets of one operator are far apart.
        return [t for layer in itertools.zip_longest(*by_operator) for t in layer if t is not None]

    def pick(self, seed: int, index: int, always: bool = False) -> CoverageTarget | None:
        """The target of a test case; None for three in five, unless `always` is set."""
        number = index if always else turn_number(index, TARGET_CYCLE, TURNS)
        if number is None:
            return None
        offset = zlib.crc32(f"{seed}/spot".encode())  # a salt; changing it changes all test cases
        return self.all[(number + offset) % len(self.all)]


def turn_number(index: int, cycle: int, positions: Sequence[int]) -> int | None:
    """The number of earlier indexes at the given positions of the cycle; None if this index is not
    at one of them."""
    turn = index % cycle
    if turn not in positions:
        return None
    return index // cycle * len(positions) + positions.index(turn)


@lru_cache(maxsize=1 << 12)
def _targets_of(
    spec: type[OpSpec], signatures: tuple[OpSignature, ...]
) -> tuple[CoverageTarget, ...]:
    """Cached, since most operators have the same signatures at every opset and in every epoch."""
    groups: dict[tuple[OpSignature, ...], None] = {}  # no duplicates: outputs follow inputs
    for variable in (*spec.bound(), None):
        found: defaultdict[DType, list[OpSignature]] = defaultdict(list)
        for signature in signatures:
            found[signature.binding[variable] if variable else signature.output].append(signature)
        groups.update(dict.fromkeys(map(tuple, found.values())))
    lo, hi = spec.inputs[0].ranks
    ranks = range(lo, hi + 1)
    every = range(max(len(groups), len(ranks)))
    turns = zip(every, itertools.cycle(groups), itertools.cycle(ranks))
    return tuple(CoverageTarget(spec, group, rank) for _, group, rank in turns)


@dataclass(frozen=True)
class MotifTurn:
    """A motif to insert. kind: of near miss (nnfuzz.generate.misses); "": the exact motif."""

    motif: Motif
    kind: str = ""

    def ways(self, draw: Draw) -> Iterator[NearMiss]:
        """Ways to insert the motif, in order; the last ways may change any of its operators."""
        if self.motif.skeleton and draw.chance(MUTATED):
            for _ in range(ATTEMPTS):
                place = draw.integer(1, self.motif.size)
                yield NearMiss(draw.shuffled(tuple(KINDS)), place, needed=True)
        if self.kind:
            yield NearMiss((self.kind,), draw.integer(1, self.motif.size), needed=True)
            yield from [NearMiss((self.kind,), needed=True)] * FURTHER_ATTEMPTS
        else:
            yield from [EXACT] * ATTEMPTS


def skeleton_turns(catalog: Catalog, seed: int, index: int, share: float) -> Sequence[MotifTurn]:
    """The skeletons that a test case tries until one fits; empty for most test cases.

    share: of the test cases that have a skeleton.
    """
    number = _skeleton_number(seed, index, share)
    if number is None or not catalog.skeletons:
        return ()
    known = {motif.name: motif for motif in catalog.skeletons}
    order = _permuted_skeletons(seed, tuple((m.name, turns_of(m)) for m in known.values()))
    chosen = (order[(number + i) % len(order)] for i in range(ALTERNATIVES))
    return [MotifTurn(known[name]) for name in dict.fromkeys(chosen)]


def turns_of(skeleton: Motif) -> int:
    """How often a skeleton occurs in a cycle of all skeletons."""
    return max(1, round(skeleton.weight * TURNS_OF_ONE))


def motif_turns(
    catalog: Catalog, seed: int, index: int, aimed: bool = False
) -> Sequence[MotifTurn]:
    """The motifs that a test case tries until one fits; empty for five test cases in ten.

    aimed: whether there is a focus.
    """
    misses, exacts = (AIMED_MISSES, AIMED_EXACTS) if aimed else (MISSES, EXACTS)
    for kinds, positions in ((tuple(KINDS), misses), (("",), exacts)):
        number = turn_number(index, CYCLE, positions)
        if number is not None:
            motifs = _turning(catalog.motifs)
            order = _permuted(seed, tuple(motifs), kinds)
            # Alternatives are far apart, so that a sequence of failing motifs does not slow one
            # test down.
            places = (number + i * len(order) // ALTERNATIVES for i in range(ALTERNATIVES))
            chosen = (order[place % len(order)] for place in places if order)
            return [MotifTurn(motifs[name], kind) for name, kind in dict.fromkeys(chosen)]
    return ()


def _skeleton_number(seed: int, index: int, share: float) -> int | None:
    """The number of earlier test cases with a skeleton; None if this test case has none.

    The indexes are divided into intervals, and each interval has a skeleton at one random index.
    """
    if not share:
        return None
    number = int(index * share)
    first, end = math.ceil(number / share), math.ceil((number + 1) / share)
    draw = zlib.crc32(f"{seed}/{number}/skeleton".encode()) / 2**32
    return number if index == first + int(draw * (end - first)) else None


@lru_cache(maxsize=64)
def _turning(motifs: tuple[Motif, ...]) -> Mapping[str, Motif]:
    """The motifs that take turns, by name; without pairs, which are too many, arrangements, which
    are frequent anyway, and motifs of weight 0."""
    own = (m for m in motifs if m.turns and m.weight)
    return {m.name: m for m in own if not isinstance(m.write, (Pair, Arrangement))}


@lru_cache(maxsize=64)
def _permuted_skeletons(seed: int, turns: tuple[tuple[str, int], ...]) -> Sequence[str]:
    """Each skeleton as often as it occurs in the cycle, in an order that depends on the seed."""
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


TRIED = 12
"""Trial graphs in which a motif is inserted; the operators of some motifs vary."""
FORMS = 4
"""Trial graphs in which a motif's operators are collected; most motifs have one or two variants."""
NODES = 24
RANK, SIZE = 3, 4
"""Rank (moved into the motif's range) and sizes of the value from which a motif starts."""


@lru_cache(maxsize=8)
def writable(motifs: tuple[Motif, ...], specs: tuple[type[OpSpec], ...]) -> tuple[Motif, ...]:
    """The motifs that fit into a trial graph, or whose operators are all present at least.

    Trial graphs have the newest opset, whatever a test has, so that all test cases of a campaign
    share the turns. Raises: NothingLeft if no operator is left.
    """
    config = GenerateConfig(nodes=NODES)
    catalog = Catalog(specs, config)
    return tuple(motif for motif in motifs if _is_writable(motif, catalog, config))


def _is_writable(motif: Motif, catalog: Catalog, config: GenerateConfig) -> bool:
    lacking = False
    for seed in range(TRIED):
        try:
            if _is_written(motif, catalog, config, seed):
                return True
        except MissingOperator:
            lacking = True
    return not lacking


def operators_written(motif: Motif, catalog: Catalog, config: GenerateConfig) -> frozenset[str]:
    """The operators that a motif writes in some trial graphs, since some motifs have variants."""
    found: set[str] = set()
    for seed in range(FORMS):
        with suppress(MissingOperator):
            found.update(node.op.name for node in _written(motif, catalog, config, seed) or ())
    return frozenset(found)


def _is_written(motif: Motif, catalog: Catalog, config: GenerateConfig, seed: int) -> bool:
    """Whether the motif can be inserted in a trial graph. Raises: MissingOperator."""
    return _written(motif, catalog, config, seed) is not None


def _written(
    motif: Motif, catalog: Catalog, config: GenerateConfig, seed: int
) -> list[Node] | None:
    """The nodes of the motif in a trial graph; None if it does not fit.

    Raises: MissingOperator.
    """
    rng = random.Random(f"{motif.name}/{seed}")
    growth = Growth(DecidedStore(rng, config.sizes), config)
    weights = {dtype: config.dtype_weight(dtype) or 0.0 for dtype in DType}
    rank = min(max(RANK, motif.ranks[0]), motif.ranks[1])
    type_: TensorType | None = TensorType(motif.dtypes[0], (SIZE,) * rank)
    if motif.begin is not None:
        type_ = motif.begin(growth.store.writing, weights)
    start = growth.place(type_) if type_ else None
    fits = start is not None and plant(motif, catalog, growth, start) is not None
    return growth.graph.nodes if fits else None
