"""What the tests of this room share."""

from __future__ import annotations

import pytest

from nnfuzz.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "campaign", {"seed": 1}) as store:
        store.sessions.begin()
        yield store
