"""Refusals and avoided items, by epoch."""

from __future__ import annotations

from nnfuzz.generate.emphasis import NO_EMPHASIS, Emphasis, KeptCase
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.records.rows import (
    AvoidedRow,
)


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
    settings = {"refused": ("A", "B"), "avoid": ("C",), "emphasis": NO_EMPHASIS}
    assert store.restraints.settings_in(4) == settings
    graph = GraphView((ValueView("x", "int8", (2,)),), (NodeView("Abs", ("x",), ("y",), {"a": 1}),))
    asked = Emphasis({"Abs": 2.5}, {}, {"int8": 0.5}, 1.2, 0.25, (KeptCase(7, "direct", graph),))
    store.restraints.set_epoch(4, ["A"], {}, [], asked)
    assert store.restraints.settings_in(5)["emphasis"] == asked
    assert store.restraints.reasons() == {"A": "toy: no"}
