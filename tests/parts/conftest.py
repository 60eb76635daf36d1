"""What the tests of this room share."""

from __future__ import annotations

import pytest
from test_epochs import campaign

TESTS, PARTS = 70, 3
UNLEARNT = {"learn": False, "throttle": 0, "probe_seconds": 0.0}
"""A part learns from its own tests; without learning, parts make the tests of one process."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    for number in range(1, PARTS + 1):
        shard = f"{number}/{PARTS}"
        campaign(folder / str(number), tests=TESTS, shard=shard, **UNLEARNT)
    return [folder / str(number) for number in range(1, PARTS + 1)]
