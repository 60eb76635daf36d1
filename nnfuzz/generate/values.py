"""Values of a growing graph that nothing computes yet, and sets of names from which one of a given
dtype and rank is drawn in constant time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nnfuzz.generate.knowledge import ValueRange, unread
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import In, Range

TOGETHER = 0.65
"""Probability that all parameters of a node (`In.weight`) are constants, which no node computes."""


@dataclass(frozen=True)
class Placeholder:
    """A value that no node computes yet; it becomes an input or a weight.

    weight: its reader expects a parameter. fixed: no node may compute it (indices). range: closed
    range of its elements, which makes it a weight. constant: it becomes a weight, as do the other
    parameters of its node. given: it becomes an input if no node computes it.
    """

    weight: bool = False
    fixed: bool = False
    range: Range | None = None
    constant: bool = False
    given: bool = False

    @property
    def closed(self) -> bool:
        """Whether no node may compute the value."""
        return self.fixed or self.constant

    def known(self, type_: TensorType) -> ValueRange:
        """The range of its elements (nnfuzz.generate.knowledge)."""
        if self.range is not None:
            return ValueRange(self.range)
        known = unread(type_)
        if not (self.fixed and type_.dtype.is_int):
            return known
        # Whatever the sizes are, an index may be -1 or 0; nothing else is certain.
        return known.over(known.range, ((-1, 0),))


def placeholders(
    draw: Draw, patterns: Sequence[In], constant: bool | None = None
) -> list[Placeholder]:
    """Fresh placeholders for the inputs of a new node. constant: whether parameters are constants;
    None: drawn."""
    if constant is None:
        constant = any([p.weight for p in patterns]) and draw.chance(TOGETHER)
    return [Placeholder(p.weight, p.fresh, constant=constant and p.weight) for p in patterns]


FREE, INDEX = Placeholder(), Placeholder(fixed=True)
Plan = list[str | Placeholder]
"""Source of each input of a new node: the name of an existing value, or a new placeholder."""


Kind = tuple[DType, int]
"""Dtype and rank."""


class TypedNames:
    """A set of names with dtype and rank; its order depends only on what was added and removed."""

    def __init__(self) -> None:
        self._by_kind: dict[Kind, list[str]] = {}
        self._ranks: dict[DType, list[int]] = {}
        self._places: dict[str, tuple[list[str], int]] = {}

    def add(self, name: str, kind: Kind) -> None:
        """Add a name that is not in the set."""
        if kind not in self._by_kind:
            self._by_kind[kind] = []
            self._ranks.setdefault(kind[0], []).append(kind[1])
        names = self._by_kind[kind]
        self._places[name] = names, len(names)
        names.append(name)

    def discard(self, name: str) -> None:
        """Remove a name if it is in the set; the last name of its kind takes its place."""
        if name in self._places:
            names, place = self._places.pop(name)
            last = names.pop()
            if last != name:
                names[place] = last
                self._places[last] = names, place

    def kinds(self, lo: int, hi: int) -> list[Kind]:
        """The kinds of rank `lo` to `hi` that have at least one name."""
        return [kind for kind, names in self._by_kind.items() if names and lo <= kind[1] <= hi]

    def read(self, dtypes: Iterable[DType], lo: int, hi: int) -> dict[DType, list[Kind]]:
        """`kinds` by dtype, without dtypes that have none."""
        found = {}
        for dtype in dtypes:
            if dtype in self._ranks:
                ranks = self._ranks[dtype]
                kinds = [(dtype, r) for r in ranks if lo <= r <= hi and self._by_kind[dtype, r]]
                if kinds:
                    found[dtype] = kinds
        return found

    def of(self, kind: Kind) -> list[str]:
        """The names of a kind, which the caller must not change."""
        return self._by_kind.get(kind, [])

    def pick(self, draw: Draw, kinds: Iterable[Kind]) -> str | None:
        """A random name among these kinds, all equally likely; None if there is none."""
        lists = [self._by_kind[kind] for kind in kinds if kind in self._by_kind]
        count = sum(map(len, lists))
        at = draw.integer(0, count - 1) if count > 1 else 0
        for names in lists:
            if at < len(names):
                return names[at]
            at -= len(names)
        return None

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
