"""Reductions and suspected duplicates in the store."""

from dataclasses import replace

import pytest

from nnfuzz.ir.view import GraphView, NodeView
from nnfuzz.records.rows import ReductionRow
from tests.store.test_store import finding

DONE = ReductionRow("a", cause="r", graph=GraphView((), (NodeView("Add"),)), before=9, after=1)
FAILED = ReductionRow("b", reason="it does not fail again")


@pytest.fixture
def store(store):
    for index, signature in enumerate("ab"):
        store.signatures.add(finding(signature, index))
    return store


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


def test_what_turns_out_known_is_no_finding_but_its_reduction_stays(store):
    store.reductions.add(DONE)
    row = next(row for row in store.findings() if row.signature == "a")
    store.signatures.withdraw(row, "known")
    assert [row.signature for row in store.findings()] == ["b"]
    assert store.signatures.known() == ["a"] and store.reductions.rows() == {"a": DONE}


def test_less_grave_findings_are_left_out_once_their_severity_is_known(store):
    store.set_meta("config", {"severity": "wrong", "reduce": True})
    store.reductions.add(replace(DONE, severity="zeros"))
    assert [row.signature for row in store.findings()] == ["b"]
    store.reductions.add(replace(DONE, severity="optimiser"))
    assert {row.signature for row in store.findings()} == {"a", "b"}
