"""Values of a growing graph: those that nothing computes yet, and names by dtype and rank, one of
which is drawn in constant time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nnfuzz.generate.knowledge import ValueRange, unread
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import In, Range

TOGETHER = 0.65
"""Probability that all parameters of a node (`In.weight`) are constants that nothing computes."""


@dataclass(frozen=True)
class Placeholder:
    """A value that nothing computes yet: it becomes an input or a weight.

    weight: the consumer expects a parameter. fixed: it must stay a placeholder (indices).
    range: closed one that its elements are drawn from; it becomes a weight then.
    constant: it becomes a weight, as do the other parameters of its node. given: it becomes an
    input if nothing computes it.
    """

    weight: bool = False
    fixed: bool = False
    range: Range | None = None
    constant: bool = False
    given: bool = False

    @property
    def closed(self) -> bool:
        """Whether nothing may compute it."""
        return self.fixed or self.constant

    def known(self, type_: TensorType) -> ValueRange:
        """The range of its values (nnfuzz.generate.knowledge)."""
        if self.range is not None:
            return ValueRange(self.range)
        known = unread(type_)
        if not (self.fixed and type_.dtype.is_int):
            return known
        # Of an index no more is sure than that -1 and 0 are admitted, whatever the sizes.
        return known.over(known.range, ((-1, 0),))


def placeholders(
    draw: Draw, patterns: Sequence[In], constant: bool | None = None
) -> list[Placeholder]:
    """What the inputs of a new node start as, by their patterns. constant: drawn if it is None."""
    if constant is None:
        constant = any([p.weight for p in patterns]) and draw.chance(TOGETHER)
    return [Placeholder(p.weight, p.fresh, constant=constant and p.weight) for p in patterns]


FREE, INDEX = Placeholder(), Placeholder(fixed=True)
Plan = list[str | Placeholder]
"""Where the inputs of a new node come from: existing values by name, or fresh placeholders."""


Kind = tuple[DType, int]
"""Dtype and rank."""


class TypedNames:
    """A set of names; its order depends on what was added and discarded, and on nothing else."""

    def __init__(self) -> None:
        self._by_kind: dict[Kind, list[str]] = {}
        self._ranks: dict[DType, list[int]] = {}
        self._places: dict[str, tuple[list[str], int]] = {}

    def add(self, name: str, kind: Kind) -> None:
        """Adds a name that is not there yet."""
        if kind not in self._by_kind:
            self._by_kind[kind] = []
            self._ranks.setdefault(kind[0], []).append(kind[1])
        names = self._by_kind[kind]
        self._places[name] = names, len(names)
        names.append(name)

    def discard(self, name: str) -> None:
        """Removes a name, if it is there; the last one of its kind takes its place."""
        if name in self._places:
            names, place = self._places.pop(name)
            last = names.pop()
            if last != name:
                names[place] = last
                self._places[last] = names, place

    def kinds(self, lo: int, hi: int) -> list[Kind]:
        """The kinds with at least one name whose rank is within `[lo, hi]`."""
        return [kind for kind, names in self._by_kind.items() if names and lo <= kind[1] <= hi]

    def read(self, dtypes: Iterable[DType], lo: int, hi: int) -> dict[DType, list[Kind]]:
        """`kinds` by dtype, for those of the dtypes that have any, in the order of the dtypes."""
        found = {}
        for dtype in dtypes:
            if dtype in self._ranks:
                ranks = self._ranks[dtype]
                kinds = [(dtype, r) for r in ranks if lo <= r <= hi and self._by_kind[dtype, r]]
                if kinds:
                    found[dtype] = kinds
        return found

    def of(self, kind: Kind) -> list[str]:
        """The names of a kind; not to be changed."""
        return self._by_kind.get(kind, [])

    def pick(self, draw: Draw, kinds: Iterable[Kind]) -> str | None:
        """One of the names of these kinds, each with the same probability; None without any."""
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
