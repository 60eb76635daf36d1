"""The features of a model that a selection of tests is to cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nnfuzz.ir.features import features
from nnfuzz.ir.view import GraphView

KINDS = {
    "operator": "operators",
    "dtype": "operators with the dtypes of their inputs",
    "rank": "operators with the rank of their first input",
    "value": "values of attributes, per operator and dtypes",
    "edge": "pairs of operators of which one reads the other",
    "vertex": "operators with attributes and shapes",
    "pass": "passes of a compiler that change something",
}
"""Kinds of features, with descriptions."""
Feature = tuple[str, str]
"""A kind and a name."""


def covered(graph: GraphView, passes: Iterable[str] = ()) -> frozenset[Feature]:
    """The features of a model. passes: written as "COMPILER: PASS"."""
    own = features(graph)
    named = {
        "operator": own.operators(),
        "dtype": (f"{op}({dtypes})" for op, dtypes in own.operator_dtypes()),
        "rank": (f"{op} of rank {rank}" for op, rank in own.operator_ranks()),
        "value": own.attribute_values(),
        "edge": (f"{a}->{b}" for a, b in own.operator_edges()),
        "vertex": own.vertices(),
        "pass": passes,
    }
    return frozenset((kind, name) for kind, names in named.items() for name in names)


def coverage_table(
    kept: Sequence[Iterable[Feature]], all_: Sequence[Iterable[Feature]]
) -> dict[str, list[int]]:
    """The number of different features by kind: those of the kept tests, and those of all tests."""
    some, whole = (Counter(kind for kind, _ in set().union(*sets)) for sets in (kept, all_))
    return {kind: [some[kind], whole[kind]] for kind in KINDS if whole[kind]}
