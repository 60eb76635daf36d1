"""What the tests of this room share."""

from __future__ import annotations

import shutil
import sqlite3

import pytest
from test_epochs import campaign

from nnfuzz.store.schema import GUIDED, OLDEST
from nnfuzz.store.store import FILE, Store


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "campaign", {"seed": 1}) as store:
        store.sessions.begin()
        yield store


TESTS, STOP = 100, 60


def make_older(folder, schema):
    """Gives the file of a campaign in which nothing is packed the tables of an older schema."""
    db = sqlite3.connect(folder / FILE)
    db.executescript(f"""
        {"DROP TABLE packed;" if schema == OLDEST else ""}
        CREATE TEMP TABLE kept AS SELECT * FROM epochs; DROP TABLE epochs; {GUIDED}
        INSERT INTO epochs SELECT *, '{{"planted": 1.5}}' FROM kept;
        INSERT INTO keepable VALUES (3, x'00'); PRAGMA user_version = {schema}""")
    db.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A campaign, the same after some of its tests, and what the whole of it has made."""
    folder = tmp_path_factory.mktemp("made")
    campaign(folder / "part", tests=TESTS, stop=STOP)
    shutil.copytree(folder / "part", folder / "whole")
    return folder, campaign(folder / "whole", tests=TESTS)[0]
