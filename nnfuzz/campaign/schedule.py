"""Which indexes an epoch covers: a fixed schedule, so that no clock decides what is generated."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Protocol

from nnfuzz.shard import Shard

FIRST, LONGEST = 16, 256
"""Tests in the first epoch, so that a short campaign learns as well; and in a late one, so that
waiting for its stragglers, once per epoch, costs little."""
PLACE_BITS = 24
"""Of a place, see `place_of`; probes that are asked for at one index have the lower ones."""


@cache
def begins(epoch: int) -> int:
    """The first index of an epoch. Two epochs have the same length, then it doubles."""
    if epoch <= 0:
        return 0
    return begins(epoch - 1) + min(LONGEST, FIRST << min((epoch - 1) // 2, 8))


def epoch_of(index: int) -> int:
    """The epoch that an index belongs to."""
    epoch = 0
    while begins(epoch + 1) <= index:
        epoch += 1
    return epoch


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
    """How many of the first indexes are there without a gap: `length`. part: of the
    campaign; indexes of other parts count as there.
    """

    def __init__(self, indexes: Iterable[int] = (), part: Shard = Shard()) -> None:  # noqa: B008
        self.length = 0
        self._part = part
        self._later = set(indexes)
        self._grow()

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
