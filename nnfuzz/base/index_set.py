"""A set of indexes, kept as ranges: a campaign of a million tests that has no gaps is one range."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Self

from nnfuzz.base.shard import Shard


class IndexSet:
    """Indexes from 0 on.

    part: the part of a campaign whose indexes it may hold. They are counted by their place in the
    part, so that those of other parts leave no gaps.
    """

    def __init__(
        self,
        indexes: Iterable[int] = (),
        part: Shard = Shard(),  # noqa: B008 (frozen)
        length: int = 0,
    ) -> None:
        """length: all indexes of the part below this one are in the set."""
        self._part = part
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._add_places(0, part.of(length))
        for index in indexes:
            self.add(index)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The set that is written "0-17 19-19", ranges with both ends. Raises: ValueError."""
        parsed = cls()
        for word in text.split():
            first, last = word.split("-")
            parsed.add_range(range(int(first), int(last) + 1))
        return parsed

    def __str__(self) -> str:
        return " ".join(f"{r.start}-{r.stop - 1}" for r in self.ranges())

    def __contains__(self, index: int) -> bool:
        place = self._part.of(index)
        position = bisect_right(self._starts, place) - 1
        return position >= 0 and place < self._ends[position]

    def add(self, index: int) -> bool:
        """Adds an index of the part; returns whether it is new."""
        if index in self:
            return False
        place = self._part.of(index)
        self._add_places(place, place + 1)
        return True

    def add_range(self, indexes: range) -> None:
        """Adds the indexes of the part that are in a range without steps."""
        self._add_places(self._part.of(indexes.start), self._part.of(indexes.stop))

    def ranges(self) -> list[range]:
        """The ranges of the set in order, as those of the first index and behind the last one.

        In a part, indexes of other parts lie in between.
        """
        pairs = zip(self._starts, self._ends, strict=True)
        return [range(self._part.index(s), self._part.index(e - 1) + 1) for s, e in pairs]

    def gaps(self) -> list[range]:
        """The ranges between those of the set, from index 0 on."""
        starts, ends = self._starts, [0, *self._ends]
        pairs = [(end, start) for end, start in zip(ends, starts, strict=False) if end < start]
        return [range(self._part.index(e), self._part.index(s - 1) + 1) for e, s in pairs]

    @property
    def length(self) -> int:
        """The first index of the part that is missing."""
        first = self._ends[0] if self._starts and self._starts[0] == 0 else 0
        return self._part.index(first)

    @property
    def later(self) -> tuple[int, ...]:
        """The indexes above the first missing one, sorted."""
        return tuple(index for index in self if index > self.length)

    @property
    def end(self) -> int:
        """The last index + 1; 0 for an empty set."""
        return self._part.index(self._ends[-1] - 1) + 1 if self._ends else 0

    def __iter__(self) -> Iterator[int]:
        for start, end in zip(self._starts, self._ends, strict=True):
            yield from map(self._part.index, range(start, end))

    def _add_places(self, start: int, end: int) -> None:
        """Adds the places from `start` to below `end`, and joins adjacent ranges."""
        if start >= end:
            return
        low, high = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [start], [end]
