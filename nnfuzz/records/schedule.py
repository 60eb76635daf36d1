"""The indexes of an epoch: a fixed schedule, so that no clock decides which tests are generated."""

from __future__ import annotations

from functools import cache

FIRST, LONGEST = 16, 256
"""Tests in the first epoch, so that a short campaign learns as well; and in a late one, unless the
settings say otherwise, so that waiting for its stragglers, once per epoch, costs little."""
LEARNT = 4096
"""The first tests of an epoch, from which the next one learns: no others are read for that."""
PLACE_BITS = 24
"""The lower bits of a place, see `place_of`; they number the probes before one index."""


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
