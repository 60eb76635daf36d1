"""The selection: budgets are kept, the rare comes first, the result does not depend on order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.corpus.selection import Budget, SelectableModel, choose, coverage_table, covered

from . import by_hand


def candidate(name, *features, size=1, seconds=1.0):
    return SelectableModel(name, frozenset(("operator", f) for f in features), size, seconds)


def names(found):
    return [c.name for c in found]


def test_the_one_that_adds_most_comes_first_and_what_adds_nothing_never():
    tests = [
        candidate("a", "x"),
        candidate("b", "x", "y"),
        candidate("c", "z"),
        candidate("d", "y"),
    ]
    assert names(choose(tests, Budget())) == ["b", "c"]
    assert names(choose(tests, Budget(count=1))) == ["b"]


def test_a_small_one_is_worth_more_where_bytes_are_scarce():
    tests = [candidate("big", "x", "y", "z", size=90), candidate("x", "x", size=10)]
    tests += [candidate("y", "y", size=10), candidate("z", "z", size=10)]
    assert names(choose(tests, Budget(size=40))) == ["x", "y", "z"]
    assert names(choose(tests, Budget())) == ["big"]


def test_kinds_weigh_the_same():
    """One operator of two is worth more than two of a hundred vertices."""
    rare = SelectableModel("rare", frozenset({("operator", "a")}))
    many = SelectableModel("many", frozenset(("vertex", str(i)) for i in range(2)))
    rest = SelectableModel(
        "rest", frozenset({("operator", "b"), *(("vertex", str(i)) for i in range(98))})
    )
    assert names(choose([many, rare, rest], Budget(count=2)))[0] == "rest"
    assert names(choose([many, rare, rest], Budget(count=2)))[1] == "rare"


FEATURES = st.frozensets(st.sampled_from("abcdefgh"))
TESTS = st.lists(st.tuples(FEATURES, st.integers(1, 20)), min_size=1, max_size=12)


@given(TESTS, st.integers(1, 12), st.integers(1, 60))
def test_budgets_are_kept_and_nothing_that_fits_is_left(tests, count, size):
    pool = [candidate(f"t{i:02}", *f, size=s) for i, (f, s) in enumerate(tests)]
    budget = Budget(count=count, size=size)
    chosen = choose(pool, budget)
    assert len(chosen) <= count and sum(c.size for c in chosen) <= size
    seen: set = set()
    for c in chosen:
        assert c.features - seen
        seen |= c.features
    left = size - sum(c.size for c in chosen)
    if len(chosen) < count:  # nothing that fits would add anything
        assert all(c.features <= seen or c.size > left or c in chosen for c in pool)


def test_what_a_graph_covers():
    found = covered(by_hand.GRAPH, ["toy: fuse"])
    assert {("operator", "Add"), ("edge", "Add->Mul"), ("rank", "Add of rank 1")} < found
    assert {("dtype", "Mul(float32,float32)"), ("pass", "toy: fuse")} < found
    assert sum(kind == "vertex" for kind, _ in found) == 2


def test_a_table_counts_kept_and_all_features():
    kept, other = {("operator", "Add"), ("edge", "Add->Mul")}, {("operator", "Mul")}
    assert coverage_table([kept], [kept, other]) == {"operator": [1, 2], "edge": [1, 1]}
