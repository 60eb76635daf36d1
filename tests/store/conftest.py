"""What the tests of this room share."""

from __future__ import annotations

import shutil

import pytest
from test_epochs import campaign

from nnfuzz.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "campaign", {"seed": 1}) as store:
        store.sessions.begin()
        yield store


TESTS, STOP = 100, 60


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A campaign, the same after some of its tests, and what the whole of it has made."""
    folder = tmp_path_factory.mktemp("made")
    campaign(folder / "part", tests=TESTS, stop=STOP)
    shutil.copytree(folder / "part", folder / "whole")
    return folder, campaign(folder / "whole", tests=TESTS)[0]
