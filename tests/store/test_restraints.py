"""Refusals and avoided items, by epoch."""

from __future__ import annotations

from nnfuzz.records.rows import AvoidedRow


def test_epochs_keep_their_refusals(store):
    nothing = {"refused": (), "avoid": ()}
    assert store.restraints.last() == -1 and store.restraints.settings_in(0) == nothing
    store.restraints.set_epoch(0, [], {})
    store.restraints.set_epoch(3, {"B", "A"}, {"A": "toy: no"}, [AvoidedRow("C", "sig", "why")])
    assert store.restraints.last() == 3
    assert store.restraints.settings_in(0) == store.restraints.settings_in(2) == nothing
    for epoch in (3, 9):
        assert store.restraints.settings_in(epoch) == {"refused": ("A", "B"), "avoid": ("C",)}
    assert store.restraints.reasons() == {"A": "toy: no"}
