"""The effects of passes: the operators that they removed, with dtypes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nnfuzz.backend.outcome import parsed_pass
from nnfuzz.ir.features import Features, NodeFeatures

PassPattern = tuple[str, str, str, str]
"""Compiler, pass, pattern and dtype."""


def pass_patterns(
    passes: Mapping[str, Iterable[str]], graph: Features
) -> dict[PassPattern, tuple[NodeFeatures, ...]]:
    """The patterns that passes have changed in a graph, each with the nodes that may be meant.

    passes: by compiler, as it wrote them. A pattern is operators with "+" between; its dtype is
    that of the first input of such a node; "" if no operator of the graph has such a name.
    """
    nodes_of: dict[PassPattern, tuple[NodeFeatures, ...]] = {}
    for compiler, written in passes.items():
        for name, pattern in map(parsed_pass, written):
            nodes = _meant(pattern, graph)
            for dtype in sorted({_dtype(node) for node in nodes}) or [""]:
                of_dtype = tuple(node for node in nodes if _dtype(node) == dtype)
                nodes_of[compiler, name, pattern, dtype] = of_dtype
    return nodes_of


def _meant(pattern: str, graph: Features) -> list[NodeFeatures]:
    """The nodes whose operators a pattern names; a spec may be one mode of an ONNX operator."""
    names = tuple(pattern.lower().split("+")) if pattern else ()
    found = [node for node in graph.nodes if node.op.lower().startswith(names)]
    return found or [n for n in graph.nodes if any(m.startswith(n.op.lower()) for m in names)]


def _dtype(node: NodeFeatures) -> str:
    return node.dtypes.partition(",")[0]
