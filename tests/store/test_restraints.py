"""Refusals and avoided items, by epoch."""

from __future__ import annotations

from nnfuzz.records.rows import AvoidedRow


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
