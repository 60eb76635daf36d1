from __future__ import annotations

from nnfuzz.mine.selection import Candidates
from nnfuzz.operators.motif_file import MotifSource
from tests.mine.test_cuts import found, graph, operators

CHAIN = (("Relu", "a", "b"), ("Tanh", "b", "c"), ("Erf", "c", "d"))


def chosen(candidates: Candidates, known=(), most=100):
    return [operators(candidate.cut) for candidate in candidates.chosen(known, most)]


def test_a_part_that_only_occurs_inside_of_a_larger_one_is_left_out():
    candidates = Candidates()
    candidates.add(found(graph(*CHAIN)), "zoo", "MIT")
    assert chosen(candidates) == [["Erf", "Relu", "Tanh"]]
    candidates.add(found(graph(*CHAIN[:2])), "zoo", "MIT")
    assert chosen(candidates) == [["Relu", "Tanh"], ["Erf", "Relu", "Tanh"]]


def test_sources_and_counts_are_kept():
    candidates = Candidates()
    for label in ("zoo", "zoo", "tests"):
        candidates.add(found(graph(*CHAIN)), label, "MIT")
    (candidate,) = candidates.chosen((), 1)
    assert candidate.origins == (MotifSource("zoo", "MIT", 2), MotifSource("tests", "MIT", 1))


def test_known_structures_are_left_out():
    candidates = Candidates()
    cuts = found(graph(*CHAIN))
    candidates.add(cuts, "zoo", "MIT")
    assert not chosen(candidates, {cut.structure for cut in cuts})


def test_what_a_pass_changes_comes_first():
    candidates = Candidates()
    other = found(graph(("Abs", "a", "b"), ("Neg", "b", "c"), ("Sqrt", "c", "d")))
    for _ in range(3):
        candidates.add(found(graph(*CHAIN)), "zoo", "MIT")
    candidates.add(other, "zoo", "MIT", frozenset({frozenset({"abs", "neg"})}))
    assert chosen(candidates, most=1) == [["Abs", "Neg", "Sqrt"]]
