"""Parts of numbered things, the K-th of N: every N-th of them, so that parts are similar."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_FORM = re.compile(r"([1-9]\d{0,8})/([1-9]\d{0,8})")


@dataclass(frozen=True)
class Shard:
    """Written "2/8": the second of eight. number: from 1 on. Raises: ValueError."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ValueError(f"{self} is no part: write 2/8 for the second of eight parts")

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Raises: ValueError."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no part: write 2/8 for the second of eight parts")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def owns(self, index: int) -> bool:
        """Whether the part has the thing of an index, from 0 on."""
        return index % self.count == self.number - 1

    def index(self, place: int) -> int:
        """The index at a place in the part."""
        return place * self.count + self.number - 1

    @property
    def whole(self) -> bool:
        return self.count == 1

    def of(self, total: int) -> int:
        """Number of the first `total` things that are in the part."""
        return len(range(self.number - 1, total, self.count))


class IndexSet:
    """Indexes from 0 on: all below `length`, and some later ones.

    part: the part of a campaign whose indexes it may hold; those of other parts leave no gaps.
    """

    def __init__(self, indexes: Iterable[int], part: Shard) -> None:
        self._part = part
        self._whole = 0  # indexes of the part without a gap
        self._later: set[int] = set()
        for index in indexes:
            self.add(index)

    def __contains__(self, index: int) -> bool:
        return index < self.length or index in self._later

    def add(self, index: int) -> None:
        """Adds an index of the part."""
        if index not in self:
            self._later.add(index)
        while self.length in self._later:
            self._later.remove(self.length)
            self._whole += 1

    @property
    def length(self) -> int:
        """The first index of the part that is missing."""
        return self._part.index(self._whole)
