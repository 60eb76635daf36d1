"""The operator, dtype and rank with which a graph begins, so that rare combinations occur.

Random picks hardly ever reach a rare dtype of one operator among many. Some graphs therefore begin
with a coverage target; all targets of a catalog take turns in an order that depends only on the
index.
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from nnfuzz.generate.catalog import Catalog, OpSignature
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import OpSpec

CYCLE = 5
"""Length of the cycle of test cases; two in five begin with a coverage target."""
TURNS = (1, 3)
"""The positions in the cycle whose graphs begin with a coverage target."""


@dataclass(frozen=True)
class CoverageTarget:
    """The operator, dtype and rank with which a graph must begin.

    signatures: those that share the dtype of one input or of the output. rank: of the first input.
    """

    spec: type[OpSpec]
    signatures: tuple[OpSignature, ...]
    rank: int


class CoverageTargets:
    """The coverage targets of a catalog, which take turns by the index of the test case."""

    def __init__(self, catalog: Catalog, focus: Collection[str] = ()) -> None:
        """focus: names of the operators that the targets have, as far as there are any; none: of
        all operators.
        """
        self.catalog = catalog
        aimed = {spec: found for spec, found in catalog.signatures.items() if spec.name in focus}
        self._signatures = aimed or catalog.signatures
        self.focused = bool(aimed)

    @cached_property
    def all(self) -> list[CoverageTarget]:
        """Every dtype of every required input and output, and every rank of a first input."""
        signatures = self._signatures.items()
        by_operator = [_targets_of(spec, tuple(found)) for spec, found in signatures]  # type: ignore[arg-type]
        # Those of one operator are far apart.
        return [t for layer in itertools.zip_longest(*by_operator) for t in layer if t is not None]

    def pick(self, seed: int, index: int, always: bool = False) -> CoverageTarget | None:
        """The target of a test case; None for most unless there always shall be one."""
        number = index if always else turn_number(index, CYCLE, TURNS)
        if number is None:
            return None
        offset = zlib.crc32(f"{seed}/spot".encode())  # a salt; another one makes other test cases
        return self.all[(number + offset) % len(self.all)]


def turn_number(index: int, cycle: int, positions: Sequence[int]) -> int | None:
    """How many test cases before an index stand at the same positions of the cycle of test cases;
    None if the index does not stand at one of them.
    """
    turn = index % cycle
    if turn not in positions:
        return None
    return index // cycle * len(positions) + positions.index(turn)


@lru_cache(maxsize=1 << 12)
def _targets_of(
    spec: type[OpSpec], signatures: tuple[OpSignature, ...]
) -> tuple[CoverageTarget, ...]:
    """Kept, since most operators have the same signatures at every opset and in every epoch."""
    groups: dict[tuple[OpSignature, ...], None] = {}  # each once: most outputs follow an input
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
