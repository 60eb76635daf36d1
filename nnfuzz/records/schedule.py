"""The indexes of an epoch: a fixed schedule, so that no clock decides which tests are generated."""

from __future__ import annotations

FIRST, LONGEST = 16, 256
"""Tests in the first epoch, so that a short campaign learns as well; and in a late one, unless the
settings say otherwise, so that waiting for its stragglers, once per epoch, costs little."""
LEARNT = 4096
"""The first tests of an epoch, from which the next one learns: no others are read for that."""


def begins(epoch: int, longest: int = LONGEST) -> int:
    """The first index of an epoch. Two epochs have the same length, then it doubles, up to the
    longest.
    """
    grown = 2 * max(0, ((longest - 1) // FIRST).bit_length())  # epochs shorter than the longest
    first = min(max(epoch, 0), grown)
    doubled = FIRST * (2 * ((1 << first // 2) - 1) + (first % 2 << first // 2))
    return doubled + max(0, epoch - grown) * longest
