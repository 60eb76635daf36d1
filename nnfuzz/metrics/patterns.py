"""What passes have changed: operators that are gone behind them, and their dtypes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nnfuzz.backend.outcome import parsed_pass
from nnfuzz.ir.features import Features, NodeFeatures

PassPattern = tuple[str, str, str, str]
"""Compiler, pass, pattern and dtype."""


def pass_patterns(
    passes: Mapping[str, Iterable[str]], graph: Features
) -> dict[PassPattern, tuple[NodeFeatures, ...]]:
    """What the passes of compilers have changed in a graph -> the nodes that it may have been.

    passes: by compiler, what was told. A pattern is operators with "+" between; the dtype is that
    of the first input of nodes of one of them, "" where no operator of the graph has such a name.
    """
    found: dict[PassPattern, tuple[NodeFeatures, ...]] = {}
    for compiler, told in passes.items():
        for name, pattern in map(parsed_pass, told):
            nodes = _meant(pattern, graph)
            for dtype in sorted({_dtype(node) for node in nodes}) or [""]:
                of_dtype = tuple(node for node in nodes if _dtype(node) == dtype)
                found[compiler, name, pattern, dtype] = of_dtype
    return found


def _meant(pattern: str, graph: Features) -> list[NodeFeatures]:
    """Nodes of operators of a pattern; some of ours are one mode of an operator of ONNX."""
    names = tuple(pattern.lower().split("+")) if pattern else ()
    found = [node for node in graph.nodes if node.op.lower().startswith(names)]
    return found or [n for n in graph.nodes if any(m.startswith(n.op.lower()) for m in names)]


def _dtype(node: NodeFeatures) -> str:
    return node.dtypes.partition(",")[0]
