"""The test case of by_hand.py, for all tests of corpora."""

import pytest

from . import by_hand


@pytest.fixture(scope="session")
def case():
    return by_hand.case()
