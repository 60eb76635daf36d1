"""Campaigns of earlier versions."""

from __future__ import annotations

import sqlite3

import pytest

from nnfuzz.store.schema import SCHEMA
from nnfuzz.store.store import FILE, Store, StoreError
from tests.store.test_packed import copy, packed_whole, read


@pytest.mark.usefixtures("small_packs")
def test_a_campaign_of_the_version_before_goes_on(made, tmp_path):
    folder = copy(made, "part", tmp_path)
    db = sqlite3.connect(folder / FILE)
    db.executescript(f"DROP TABLE packed; PRAGMA user_version = {SCHEMA - 1}")
    db.close()
    with Store.open(folder, write=False) as store:
        before = read(store)
    with Store.open(folder) as store:
        assert read(store) == before and packed_whole(store)
    with Store.open(folder, write=False) as store:
        assert read(store) == before
    db = sqlite3.connect(folder / FILE)
    db.executescript(f"PRAGMA user_version = {SCHEMA + 1}")
    db.close()
    with pytest.raises(StoreError, match="schema"):
        Store.open(folder, write=False)
