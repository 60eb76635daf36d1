"""Operators that compilers make part of a sum in front of them (`OpSpec.joining`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnfuzz.compare.precision import Precision, whole
from nnfuzz.ir.graph import Node
from nnfuzz.spec.families.sums import Summing
from nnfuzz.spec.intervals import Interval, sum_radius
from nnfuzz.spec.operator import OpSpec


def joins(node: Node, name: str, intervals: Mapping[str, Interval]) -> bool:
    """Whether a node may become part of the sum that one of its inputs is, and its numbers too."""
    if not node.op.joining or len(set(node.inputs)) == 1:
        return False
    if node.op.joining == "first":
        return name == node.inputs[0]
    return not all(whole(intervals[n]) for n in node.inputs)


def begun(
    interval: Interval,
    maker: OpSpec,
    inputs: Sequence[Interval],
    others: Sequence[Interval],
    precision: Precision,
) -> Interval:
    """The interval of a sum, widened by the error of beginning it with numbers to be added to it.

    maker, inputs: what computes the sum. As every step rounds what it began with, a large bias
    costs digits that the sum and an addition behind it would not lose.
    """
    if not isinstance(maker, Summing):
        return interval
    steps = maker.terms(*[b.far() for b in inputs])
    for other in others:
        if _fits(other, interval):
            error = precision.twice * sum_radius(precision.u, steps, other.far().abs())
            interval = Interval(interval.lo - error, interval.hi + error, interval.any)
    return interval


def _fits(part: Interval, interval: Interval) -> bool:
    """Whether a sum in the shape of `interval` may begin with `part`."""
    sizes = zip(reversed(part.lo.shape), reversed(interval.lo.shape))
    return part.lo.ndim <= interval.lo.ndim and all(a in (1, b) for a, b in sizes)
