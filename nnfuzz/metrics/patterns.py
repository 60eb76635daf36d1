"""What a pass was seen with: the operator patterns of the graphs that it changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nnfuzz.ir.edges import edge_key
from nnfuzz.ir.features import Features

PassPattern = tuple[str, str, str]
"""Compiler, pass and pattern: an operator with a dtype, or an edge with one."""


def operator_patterns(graph: Features) -> set[tuple[str, str]]:
    """Operators with the dtype of their first input."""
    return {(node.op, node.dtypes.partition(",")[0]) for node in graph.nodes}


def edge_patterns(graph: Features) -> set[str]:
    """Edges (nnfuzz.ir.edges) with the dtype of the reader's first input."""
    nodes = graph.nodes
    return {
        edge_key(nodes[a].op, nodes[b].op, nodes[b].dtypes.partition(",")[0])
        for a, b in graph.edges
    }


def pass_patterns(
    passes: Mapping[str, Iterable[str]], patterns: Iterable[str]
) -> Iterator[PassPattern]:
    """Every pass with every pattern of the graph that it changed.

    passes: by compiler. Compilers do not tell which nodes a pass has changed, so a pattern is one
    of those that were there.
    """
    patterns = sorted(patterns)
    for compiler, names in passes.items():
        for name in names:
            yield from ((compiler, name, pattern) for pattern in patterns)
