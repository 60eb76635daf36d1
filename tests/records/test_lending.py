"""Sizes of the ranges that nodes lease."""

import pytest

from nnfuzz.records.lending import LEAST, MOST, RANGES_PER_NODE, Lease, range_size


@pytest.mark.parametrize("tests, nodes", [(256, 1), (4096, 3), (1, 5), (1 << 20, 0)])
def test_every_node_has_its_ranges_unless_they_were_too_small(tests, nodes):
    size = range_size(tests, nodes)
    assert LEAST <= size <= MOST
    assert size in (LEAST, MOST) or size * RANGES_PER_NODE * nodes <= tests


def test_a_lease_ends_before_its_end():
    lease = Lease(8, 12)
    assert len(lease) == 4 and lease.name == "8-12"
