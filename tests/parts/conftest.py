"""What the tests of this room share."""

from __future__ import annotations

import pytest
from test_epochs import PARTS, in_parts

TESTS = 70


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    in_parts(folder, tests=TESTS)
    return [folder / str(number) for number in range(1, PARTS + 1)]
