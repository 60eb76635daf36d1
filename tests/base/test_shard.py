"""Parts of numbered things are the whole together, and share nothing."""

from __future__ import annotations

import pytest

from nnfuzz.base.shard import Shard


def test_parts_are_the_whole_and_share_nothing():
    parts = [Shard(number, 3) for number in (1, 2, 3)]
    for index in range(10):
        assert sum(part.owns(index) for part in parts) == 1
    assert [part.of(10) for part in parts] == [4, 3, 3]
    assert Shard().of(10) == 10 and Shard().whole and not parts[0].whole


def test_parts_are_written_as_fractions():
    assert str(Shard.parse("2/8")) == "2/8"
    for text in ("", "3", "0/3", "4/3", "1/0", "a/b", "1/2/3", "1/" + "9" * 99):
        with pytest.raises(ValueError, match="write 2/8"):
            Shard.parse(text)
