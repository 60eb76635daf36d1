"""Reductions and suspected duplicates in the store."""

from nnfuzz.ir.view import GraphView, NodeView
from nnfuzz.records.rows import ReductionRow

DONE = ReductionRow("a", cause="r", graph=GraphView((), (NodeView("Add"),)), before=9, after=1)
FAILED = ReductionRow("b", reason="it does not fail again")


def test_a_later_reduction_replaces_an_earlier_one(store):
    store.reductions.add(ReductionRow("a", reason="took too long"))
    store.reductions.add(FAILED)
    store.reductions.add(DONE)
    assert store.reductions.rows() == {"a": DONE, "b": FAILED}


def test_suspicions_end(store):
    for signature in ("a", "b"):
        store.reductions.suspect(signature, "r")
    store.reductions.acquit("a")
    assert store.reductions.suspects() == {"b": "r"}
