"""Operators that compilers make part of a sum in front of them (`OpSpec.joining`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnfuzz.compare.precision import Precision, whole
from nnfuzz.ir.graph import Node
from nnfuzz.spec.families.sums import Summing
from nnfuzz.spec.intervals import Box, sum_radius
from nnfuzz.spec.operator import OpSpec


def joins(node: Node, name: str, boxes: Mapping[str, Box]) -> bool:
    """Whether a node may become part of the sum that one of its inputs is, and its numbers too."""
    if not node.op.joining or len(set(node.inputs)) == 1:
        return False
    if node.op.joining == "first":
        return name == node.inputs[0]
    return not all(whole(boxes[n]) for n in node.inputs)


def begun(
    box: Box, maker: OpSpec, inputs: Sequence[Box], others: Sequence[Box], precision: Precision
) -> Box:
    """The box of a sum, with the error of beginning it with other numbers that are added to it.

    maker, inputs: what computes the sum. As every step rounds what it began with, a large bias
    costs digits that the sum and an addition behind it would not lose.
    """
    if not isinstance(maker, Summing):
        return box
    steps = maker.terms(*[b.far() for b in inputs])
    for other in others:
        if _fits(other, box):
            error = precision.twice * sum_radius(precision.u, steps, other.far().abs())
            box = Box(box.lo - error, box.hi + error, box.any)
    return box


def _fits(part: Box, box: Box) -> bool:
    """Whether a sum in the shape of `box` may begin with `part`."""
    sizes = zip(reversed(part.lo.shape), reversed(box.lo.shape))
    return part.lo.ndim <= box.lo.ndim and all(a in (1, b) for a, b in sizes)
