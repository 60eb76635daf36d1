"""Which indexes an epoch covers: a fixed schedule, so that no clock decides what is generated."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Protocol

from nnfuzz.base.shard import Shard

FIRST, LONGEST = 16, 256
"""Tests in the first epoch, so that a short campaign learns as well; and in a late one, unless the
settings say otherwise, so that waiting for its stragglers, once per epoch, costs little."""
LEARNT = 4096
"""Tests of an epoch that there is learnt from, the first ones: who decides reads no more."""
PLACE_BITS = 24
"""Of a place, see `place_of`; probes that are asked for at one index have the lower ones."""


def begins(epoch: int, longest: int = LONGEST) -> int:
    """The first index of an epoch. Two epochs have the same length, then it doubles, up to the
    longest.
    """
    grown = _grown(longest)
    first = min(max(epoch, 0), grown)
    doubled = FIRST * (2 * ((1 << first // 2) - 1) + (first % 2 << first // 2))
    return doubled + max(0, epoch - grown) * longest


def epoch_of(index: int, longest: int = LONGEST) -> int:
    """The epoch that an index belongs to."""
    grown = _grown(longest)
    if index >= begins(grown, longest):
        return grown + (index - begins(grown, longest)) // longest
    return next(e for e in range(grown) if begins(e + 1, longest) > index)


@cache
def _grown(longest: int) -> int:
    """How many epochs are shorter than the longest."""
    return 2 * max(0, ((longest - 1) // FIRST).bit_length())


def place_of(index: int) -> int:
    """Where a test stands in the order of all tests and probes of a campaign.

    Probes that are asked for before an index have the places between those of the test before it
    and its own.
    """
    return (index + 1) << PLACE_BITS


class Recorded(Protocol):
    """What is recorded. length: of the first indexes how many are there without a gap."""

    @property
    def length(self) -> int: ...

    def add(self, index: int) -> None: ...


class Prefix:
    """How many of the first indexes are there without a gap: `length`. Only those behind it are
    kept one by one.
    """

    def __init__(
        self,
        indexes: Iterable[int] = (),
        part: Shard = Shard(),  # noqa: B008
        length: int = 0,
    ) -> None:
        """indexes: the lowest first. part: of the campaign; indexes of other parts count as there.
        length: that is known already.
        """
        self.length = length
        self._part = part
        self._later: set[int] = set()
        self._grow()
        for index in indexes:
            self.add(index)

    def __contains__(self, index: int) -> bool:
        return index < self.length or index in self._later

    @property
    def later(self) -> tuple[int, ...]:
        """Those that are there behind a gap, sorted."""
        return tuple(sorted(self._later))

    def add(self, index: int) -> None:
        if index >= self.length:
            self._later.add(index)
            self._grow()

    def _grow(self) -> None:
        while self.length in self._later or not self._part.owns(self.length):
            self._later.discard(self.length)
            self.length += 1
