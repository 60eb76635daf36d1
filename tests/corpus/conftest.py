"""The test case of by_hand.py and small corpora, for all tests of corpora."""

import pytest

from . import by_hand, consumers


@pytest.fixture(scope="session")
def case():
    return by_hand.case()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return consumers.corpus(tmp_path_factory.mktemp("corpus") / "models")


@pytest.fixture(scope="session")
def spoiled(corpus, tmp_path_factory):
    """A corpus with a planted failure, and the name of the test that fails."""
    copy = tmp_path_factory.mktemp("spoiled") / "models"
    return copy, consumers.spoiled(corpus, copy)
