"""Stability: elements so near to a discontinuity that a rounding error can move them across it.

Floor, Cast to integers, comparisons, ArgMax and the like jump. An element next to a jump can not be
compared between compilers, nor can anything that depends on it, so the search prefers parameters
with few of them. An element exactly on the edge counts as stable, since it is there by construction
(a constant, an integer, equal operands) and not by chance.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from nnfuzz.inputs.program import Program, Values
from nnfuzz.operators.operator import OpSpec

AMPLIFIED = 32
"""Distance in ULP within which an edge is too near, since errors grow on the way to it."""


def tolerance(inputs: list[Tensor]) -> float:
    """The distance from an edge below which rounding may decide, for a node with these inputs."""
    floats = [x for x in inputs if x.is_floating_point() and x.numel()]
    if not floats:
        return 0.0
    size = max([abs(end.item()) for x in floats for end in torch.aminmax(x.detach())])
    return AMPLIFIED * torch.finfo(floats[0].dtype).eps * (0.5 + size)


def decisive(program: Program) -> list[int]:
    """Positions of nodes with a discontinuity, except where both operands are one value."""
    return [
        i
        for i, node in enumerate(program.graph.nodes)
        if type(node.op).margins is not OpSpec.margins
        and len(set(node.inputs)) == len(node.inputs)
        and any(program.dtypes[name].is_float for name in node.inputs)
    ]


def shaky(program: Program, positions: list[int], values: Values) -> Iterator[tuple[int, int, int]]:
    """(position, elements next to an edge, elements) of every decisive node."""
    for i in positions:
        node = program.graph.nodes[i]
        inputs = [values[name] for name in node.inputs]
        margins = [m for m in node.op.margins(*inputs) if m.numel()]
        if margins:
            near = tolerance(inputs)
            count = sum(_between(m, near) for m in margins)
            yield i, count, sum(m.numel() for m in margins)


def _between(margin: Tensor, near: float) -> int:
    """Number of elements in (0, near); usually none, which the minimum shows quickly."""
    least = margin.min().item()
    if least >= near:
        return 0
    return int(torch.count_nonzero((margin > 0) & (margin < near)))


def stable_share(program: Program, positions: list[int], values: Values) -> float:
    """Share of the elements of all decisive nodes that are not next to a discontinuity.

    1 if there is no such node. All nodes have equal weight.
    """
    with torch.no_grad():
        shares = [1 - count / total for _, count, total in shaky(program, positions, values)]
    return sum(shares) / len(shares) if shares else 1.0


def least_stable(program: Program, positions: list[int], values: Values) -> int | None:
    """The first node, by position, with an element next to an edge."""
    with torch.no_grad():
        return next((i for i, count, _ in shaky(program, positions, values) if count), None)
