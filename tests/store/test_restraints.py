"""Refusals and avoided items, by epoch."""

from __future__ import annotations

import pytest

from nnfuzz.records.rows import AvoidedRow
from nnfuzz.store.rescue import rescue
from nnfuzz.store.schema import FILE, OLDEST, SCHEMA
from nnfuzz.store.store import Store
from tests.store.conftest import make_older


def test_epochs_keep_their_refusals(store):
    assert (
        store.restraints.last() == -1
        and store.restraints.refused_in(-1) == store.restraints.refused_in(0) == ()
    )
    store.restraints.set_epoch(0, [], {})
    store.restraints.set_epoch(3, {"B", "A"}, {"A": "toy: no"}, [AvoidedRow("C", "sig", "why")])
    assert store.restraints.last() == 3
    assert store.restraints.refused_in(0) == store.restraints.refused_in(2) == ()
    assert store.restraints.refused_in(3) == store.restraints.refused_in(9) == ("A", "B")
    assert store.restraints.settings_in(4) == {"refused": ("A", "B"), "avoid": ("C",)}
    assert store.restraints.reasons() == {"A": "toy: no"}


@pytest.mark.parametrize("schema", range(OLDEST, SCHEMA))
def test_restraints_of_an_older_version_stay(store, schema, tmp_path):
    store.restraints.set_epoch(3, ["A"], {"A": "toy: no"}, [AvoidedRow("C", "sig", "why")])
    store.close()
    make_older(store.folder, schema)
    rescue(store.folder / FILE, tmp_path / FILE)
    for folder, write in ((store.folder, False), (store.folder, True), (tmp_path, True)):
        with Store.open(folder, write=write) as again:
            assert again.restraints.settings_in(4) == {"refused": ("A",), "avoid": ("C",)}
            assert again.restraints.reasons() == {"A": "toy: no"}
