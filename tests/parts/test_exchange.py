"""What nodes share of the tests that they learn from."""

from __future__ import annotations

from nnfuzz.parts.exchange import merged_observations
from nnfuzz.records.rows import Observed


def test_each_index_of_several_ranges_counts_once():
    tests = [Observed(index, 0, "run", "direct", (), {}, {}) for index in range(3)]
    assert merged_observations([[tests[2], tests[0]], [tests[1], tests[2]]]) == tests
