"""A set of indexes holds what a set of integers holds, in few ranges."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.base.index_set import IndexSet
from nnfuzz.base.shard import Shard

PARTS = st.sampled_from([Shard(), Shard(1, 3), Shard(3, 3)])


@given(PARTS, st.lists(st.integers(0, 40)), st.integers(0, 10))
def test_it_is_a_set(part, numbers, length):
    below = [index for index in range(length) if part.owns(index)]
    indexes = [part.index(number) for number in numbers]
    found = IndexSet(below, part)
    assert [found.add(index) for index in indexes] == [
        index not in below + indexes[:at] for at, index in enumerate(indexes)
    ]
    wanted = {*below, *indexes}
    assert list(found) == sorted(wanted)
    assert list(IndexSet(indexes, part, length)) == sorted(wanted)
    own = [index for index in range(200) if part.owns(index)]
    assert all((index in found) == (index in wanted) for index in own)
    missing = [index for index in own if index not in wanted]
    assert found.length == missing[0]
    assert found.later == tuple(sorted(index for index in wanted if index > missing[0]))
    assert found.end == max(wanted, default=-1) + 1
    gaps = [index for gap in found.gaps() for index in gap if part.owns(index)]
    assert gaps == [index for index in missing if index < found.end]
    assert [i for r in found.ranges() for i in r if part.owns(i)] == sorted(wanted)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9))))
def test_ranges_join_and_are_written(pairs):
    found, wanted = IndexSet(), set()
    for first, length in pairs:
        found.add_range(range(first, first + length))
        wanted |= {*range(first, first + length)}
    assert {*found} == wanted
    ranges = found.ranges()
    assert all(one.stop < other.start for one, other in pairwise(ranges))
    assert list(IndexSet.parse(str(found))) == list(found)


def test_what_is_no_set_is_refused():
    assert str(IndexSet([0, 1, 3])) == "0-1 3-3" and not str(IndexSet())
    for text in ("1", "a-b", "1-2-3"):
        with pytest.raises(ValueError):
            IndexSet.parse(text)


def test_the_length_grows_over_what_came_early():
    indexes = IndexSet([0, 1, 3])
    assert indexes.length == 2
    indexes.add(5)
    assert indexes.length == 2
    indexes.add(2)
    assert indexes.length == 4


def test_the_length_does_not_wait_for_other_parts():
    indexes = IndexSet([1], Shard(2, 3))
    assert indexes.length == 4
    indexes.add(7)
    assert indexes.length == 4
    indexes.add(4)
    assert indexes.length == 10


def test_new_indexes_and_gaps():
    read = IndexSet()
    new = [read.add(index) for index in (0, 3, 3, 1, 1, 2, 4)]
    assert new == [True, True, False, True, False, True, True]
    assert read.end == 5 and not read.gaps()
    other = IndexSet(part=Shard(2, 4))
    assert all(map(other.add, (1, 5, 13))) and other.gaps() == [range(9, 10)]
    assert other.add(9) and not other.gaps()
