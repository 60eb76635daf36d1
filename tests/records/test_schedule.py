"""Where epochs begin."""

from __future__ import annotations

import pytest

from nnfuzz.records.schedule import FIRST, LONGEST, begins


def test_epochs_grow_and_stop_growing():
    starts = [begins(epoch) for epoch in range(8)]
    assert starts == [0, 16, 32, 64, 96, 160, 224, 352]
    assert begins(101) - begins(100) == LONGEST
    assert begins(-1) == begins(0) == 0


@pytest.mark.parametrize("longest", [16, 17, 100, 256, 100_000])
def test_epochs_are_counted_without_going_through_them(longest):
    start = 0
    for epoch in range(60):
        assert begins(epoch, longest) == start
        start += min(longest, FIRST << epoch // 2)
