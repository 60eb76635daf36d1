"""The features that a model covers."""

from __future__ import annotations

from nnfuzz.corpus.coverage import coverage_table, covered

from . import by_hand


def test_what_a_graph_covers():
    found = covered(by_hand.GRAPH, ["toy: fuse"])
    assert {("operator", "Add"), ("edge", "Add->Mul"), ("rank", "Add of rank 1")} < found
    assert {("dtype", "Mul(float32,float32)"), ("pass", "toy: fuse")} < found
    assert sum(kind == "vertex" for kind, _ in found) == 2


def test_a_table_counts_kept_and_all_features():
    kept, other = {("operator", "Add"), ("edge", "Add->Mul")}, {("operator", "Mul")}
    assert coverage_table([kept], [kept, other]) == {"operator": [1, 2], "edge": [1, 1]}
