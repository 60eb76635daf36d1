"""Envelopes at edges: which outputs are determined where inputs hold NaN, infinities and signed
zeros.

An abstract value accompanies the interval of every element (`nnfuzz.compare.envelope`): a number in
an interval, where zero has a certain sign or either sign; NaN; an infinity; or any value. Operators
change it by these rules:

- Movement of data and selection by a known condition (`edges_of_moved`, `_selected`) keep every bit
  of an element, and nothing else than the element that is chosen counts.
- An elementwise operator that IEEE 754 or ONNX decides on (`OpSpec.edges`) is computed at all
  points that stand for its operands: the ends of an interval, both zeros where it holds either,
  NaN, an infinity. What these agree on is decided (`_agreed`); next to a pole, at the end of a
  domain or where something may overflow they do not.
- NaN is carried into what depends on it by operators that say so (`OpSpec.carries_nan`).
- -inf leaves an element out of a softmax, as masks of attention do (`OpSpec.leaves_out`).
- Any other operator makes numbers of numbers, as long as they are in its domain, outside of which
  what it computes on its way may overflow; what depends on another element is anything at all.

The sign of a zero is decided where arithmetic is rounded once (IEEE 754-2019, clause 6.3), and
where an operator is exact. A number that a compiler may flush to zero has either sign then.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from nnfuzz.backend.numeric import beyond, strange
from nnfuzz.compare.envelope import (
    Enclosure,
    Envelope,
    envelope,
    enveloped,
    node_intervals,
)
from nnfuzz.compare.reference import reference
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.expanded import flat
from nnfuzz.operators.families.elementwise import Elementwise
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.intervals import Interval, everywhere
from nnfuzz.operators.operator import OpSpec, flatten
from nnfuzz.operators.rounding import underflow

Arrays = Mapping[str, np.ndarray]
ROUNDING = 8.0
"""Allowed error of a function at an infinite operand, such as atan(inf), in unit roundoffs."""
NEGLIGIBLE = 1000.0
"""An exponent whose negative gives exp(-x) = 0, also in float64."""
_SCALE = 2.0**-500
"""A factor on operands: a result that is still infinite is at a pole and has not overflowed."""


@dataclass(frozen=True, eq=False, slots=True)
class Edge:
    """The determined values of a float tensor's elements beside their interval; tensors in float64.

    special: NaN or an infinity for elements that are so in every correct implementation, where the
    interval is masked; else 0. sign: of exact zeros, 1 or -1; 0 where either is right.
    """

    special: Tensor
    sign: Tensor

    @classmethod
    def none(cls, like: Tensor) -> Edge:
        nothing = torch.zeros_like(like, dtype=torch.float64)
        return cls(nothing, nothing)


def enclosure(
    graph: Graph,
    params: Arrays,
    expected: Arrays = MappingProxyType({}),
    edges: bool = False,
) -> Enclosure:
    """The envelopes that a verdict rests on: at edges where NaN, an infinity or -0.0 is among the
    inputs and weights, or NaN or an infinity among the outputs.

    expected: PyTorch's outputs, as far as they are known. edges: whether it is at edges in any
    case. A zero that arithmetic made has a sign in every model, which only matters if inputs have
    one. Raises: ReferenceFault.
    """
    wanted = edges or beyond(params) or strange(expected)
    return (enveloped_at_edges if wanted else enveloped)(graph, params)


def enveloped_at_edges(graph: Graph, params: Arrays) -> Enclosure:
    """As `enveloped`, with NaN and infinities as bounds where these are decided, and the sign of
    zeros. Raises: ReferenceFault.
    """
    graph, params = flat(graph, params)
    values = reference(graph, {name: params[name] for name in (*graph.inputs, *graph.weights)})
    intervals: dict[str, Interval] = {}
    edges: dict[str, Edge] = {}
    with torch.inference_mode():
        for name in (*graph.inputs, *graph.weights):
            intervals[name], edges[name] = _given(values[name], graph.type(name).dtype)
        for node in graph.nodes:
            here = intervals | _left_out(node, intervals, edges)
            node_intervals(graph, node, values, here)
            intervals.update((name, here[name]) for name in node.outputs)
            made = _outputs(graph, node, values, intervals, edges)
            for name, (interval, edge) in zip(node.outputs, made, strict=True):
                intervals[name], edges[name] = interval, edge
    envelopes = {
        name: _with_edge(
            envelope(graph.type(name).dtype, values[name], intervals[name]), edges[name]
        )
        for name in graph.outputs
    }
    known = {name: _unmasked(own, edges[name]) for name, own in intervals.items()}
    return Enclosure(graph, values, known, envelopes, params)


def _unmasked(own: Interval, edge: Edge) -> Interval:
    """The interval without a mask where NaN or an infinity is determined and thus compared."""
    if own.any is None:
        return own
    mask = own.any & (edge.special == 0)
    return Interval(own.lo, own.lo if own.exact else own.hi, mask if bool(mask.any()) else None)


def _left_out(
    node: Node, intervals: Mapping[str, Interval], edges: Mapping[str, Edge]
) -> dict[str, Interval]:
    """The operands of a softmax or a maximum with a number in place of -inf that is less than the
    others by far, so that its exponential is zero beside theirs: a mask leaves out elements in this
    way. Where it leaves out all of them the reference is no number, and nothing is decided."""
    if not node.op.leaves_out:
        return {}
    gone = {name: edges[name].special == -torch.inf for name in node.inputs}
    if not any(bool(mask.any()) for mask in gone.values()):
        return {}
    own = {name: intervals[name] for name in gone}
    least = min(torch.where(b.mask(), torch.inf, b.lo).amin().item() for b in own.values())
    low = (least if math.isfinite(least) else 0.0) - NEGLIGIBLE
    return {name: _without(own[name], mask, low) for name, mask in gone.items()}


def _without(own: Interval, gone: Tensor, low: float) -> Interval:
    """The interval with a number in place of some elements."""
    lo, hi = (torch.where(gone, low, end) for end in (own.lo, own.hi))
    mask = own.mask() & ~gone
    return Interval(lo, lo if own.exact else hi, mask if bool(mask.any()) else None)


def _given(x: Tensor, dtype: DType) -> tuple[Interval, Edge]:
    """A parameter of the graph: NaN and infinities are masked as numbers; numbers that may be
    flushed have an interval with zero."""
    if not dtype.is_float:
        return Interval(x, x), Edge.none(x)
    special = torch.where(torch.isfinite(x), 0.0, x)
    strange = special != 0
    tame = torch.where(strange, 0.0, x)
    lost = (tame.abs() < underflow(dtype.unit_roundoff)) & (tame != 0)
    lo, hi = (torch.where(lost, end, tame) for end in (tame.clamp(max=0), tame.clamp(min=0)))
    sign = torch.where((tame == 0) & ~strange, torch.copysign(torch.ones_like(x), x), 0.0)
    whole = Interval(lo, hi) if bool(lost.any()) else Interval(tame, tame)
    return whole.masked(strange if bool(strange.any()) else None), Edge(special, sign)


def _outputs(
    graph: Graph,
    node: Node,
    values: Mapping[str, Tensor],
    intervals: Mapping[str, Interval],
    edges: Mapping[str, Edge],
) -> list[tuple[Interval, Edge]]:
    """The edges of a node's outputs, given their intervals as numbers."""
    plain = [(intervals[name], Edge.none(intervals[name].lo)) for name in node.outputs]
    inputs = [(intervals[name], edges[name]) for name in node.inputs]
    if not inputs:
        return plain
    if not node.op.edges:
        # The domains of some operators end at the greatest number of the dtype.
        dtypes = [graph.type(name).dtype.torch for name in node.inputs]
        ends = [
            [end.to(dtype) for end, dtype in zip(side, dtypes)]
            for side in zip(*((own.lo, own.hi) for own, _ in inputs))
        ]
        far = any(bool((term > 0).any()) for end in ends for term in node.op.domain(*end))
        carried = _carried(node.op, inputs, len(plain))
        masked = (own.masked(everywhere(own.lo, far)) for own, _ in plain)
        return [(own, edge or Edge.none(own.lo)) for own, edge in zip(masked, carried)]
    if isinstance(node.op, DataMovement):
        if node.op.mixes:
            return plain
        refs = [values[name] for name in node.outputs]
        return [(own, edge) for (own, _), edge in zip(plain, edges_of_moved(node.op, inputs, refs))]
    floats = any(own.lo.is_floating_point() for own, _ in inputs)
    if not isinstance(node.op, Elementwise) or not floats:
        return plain
    dtype = graph.type(node.outputs[0]).dtype
    if node.op.selects:
        return [(plain[0][0], _selected([*inputs], plain[0][0]))] if dtype.is_float else plain
    counted = inputs[: len(inputs) - node.op.typing]
    return [_agreed(node.op, counted, plain[0][0], dtype)]


def _carried(
    op: OpSpec, inputs: Sequence[tuple[Interval, Edge]], outputs: int
) -> Sequence[Edge | None]:
    """NaN in the results that depend on a NaN; None per output if there is none in any.

    Numbers for which no operator returns NaN stand for all other elements.
    """
    nans = [torch.isnan(edge.special) for _, edge in inputs]
    if not op.carries_nan or not any(bool(nan.any()) for nan in nans):
        return [None] * outputs
    tame = [torch.ones_like(x.lo) for x, _ in inputs]
    marked = [x.masked_fill(nan, torch.nan) if bool(nan.any()) else x for nan, x in zip(nans, tame)]
    pairs = zip(flatten(op.torch(*marked)), flatten(op.torch(*tame)))
    made = ((torch.isnan(y) & ~torch.isnan(other)) for y, other in pairs)
    special = (torch.where(mask, torch.nan, 0.0).double() for mask in made)
    return [Edge(own, torch.zeros_like(own)) for own in special]


def edges_of_moved(
    op: OpSpec, inputs: Sequence[tuple[Interval, Edge]], refs: Sequence[Tensor]
) -> list[Edge]:
    """The edges of moved elements: each one comes from an element of an input, or is a constant of
    the operator that the reference shows."""
    starts = np.cumsum([0, *(own.lo.numel() for own, _ in inputs)])
    places = [
        torch.arange(start, start + own.lo.numel(), dtype=torch.float64).reshape(own.lo.shape)
        for start, (own, _) in zip(starts, inputs)
    ]
    # An element that moves along with its operand is an element of it.
    here, there = (
        [*flatten(op.torch(*(place + shift for place in places)))] for shift in (1.0, 3.0)
    )
    special, sign = (
        torch.cat([getattr(edge, part).reshape(-1) for _, edge in inputs])
        for part in ("special", "sign")
    )
    edges = []
    for ref, one, other in zip(refs, here, there, strict=True):
        if not ref.is_floating_point() or not special.numel():
            edges.append(Edge.none(ref))
            continue
        comes = other - one == 2
        index = torch.where(comes, one.double() - 1, 0.0).long()
        own = Edge(
            torch.where(torch.isfinite(ref), 0.0, ref), torch.copysign(torch.ones_like(ref), ref)
        )
        edges.append(
            Edge(
                torch.where(comes, special[index], own.special),
                torch.where(comes, sign[index], own.sign),
            )
        )
    return edges


def _selected(inputs: Sequence[tuple[Interval, Edge]], interval: Interval) -> Edge:
    """The edge of Where(condition, x, y), where the condition is known."""
    (condition, _), (_, x), (_, y) = inputs
    known = ~condition.unsure
    parts = (
        torch.where(known, torch.where(condition.lo, a, b), 0.0).expand_as(interval.lo)
        for a, b in ((x.special, y.special), (x.sign, y.sign))
    )
    return Edge(*parts)


def _agreed(
    op: Elementwise, inputs: Sequence[tuple[Interval, Edge]], interval: Interval, dtype: DType
) -> tuple[Interval, Edge]:
    """The value on which all points that represent the operands agree.

    interval: of results of numbers, masked where an operand is none.
    """
    points = [_points(*pair) for pair in inputs]
    results = [_computed(op, *chosen) for chosen in itertools.product(*points)]
    first, shape = results[0], interval.lo.shape
    strange, unknown = (
        reduce(torch.logical_or, masks).expand(shape)
        for masks in zip(*((e.special != 0, b.mask() & (e.special == 0)) for b, e in inputs))
    )
    rescued = interval.mask() & strange & ~unknown
    if not dtype.is_float:
        same = reduce(torch.logical_and, (y == first for y in results))
        known = rescued & same
        value = torch.where(known, first, interval.lo)
        hi = value if interval.exact else torch.where(known, first, interval.hi)
        return Interval(value, hi, interval.mask() & ~known), Edge.none(interval.lo)
    nan = reduce(torch.logical_and, map(torch.isnan, results))
    infinite = torch.isinf(first) & reduce(torch.logical_and, (y == first for y in results))
    at_pole = _computed(op, *(own[0] * _SCALE for own in points)) == first
    at_pole = infinite & ~strange & ~unknown & at_pole
    special = torch.where(nan | (infinite & strange & ~unknown) | at_pole, first, 0.0)
    special = torch.where(interval.mask(), special, 0.0)
    numbers = rescued & reduce(torch.logical_and, map(torch.isfinite, results))
    lo, hi = (reduce(end, results) for end in (torch.minimum, torch.maximum))
    precise = exact(op, len(inputs))
    if not precise:
        u = ROUNDING * dtype.unit_roundoff
        lo, hi = lo - u * lo.abs(), hi + u * hi.abs()
    lo, hi = (torch.where(numbers, a, b) for a, b in ((lo, interval.lo), (hi, interval.hi)))
    mask = interval.mask() & ~numbers
    if not precise:  # exp(x) in cosh(x) overflows before that does
        mask = mask | (torch.maximum(lo.abs(), hi.abs()) > dtype.limits[1] / 4)
    zero = (lo == 0) & (hi == 0) & ~mask
    sign = torch.copysign(torch.ones_like(lo), first)
    agree = (torch.copysign(torch.ones_like(lo), y) == sign for y in results)
    certain = zero & reduce(torch.logical_and, agree) & precise
    whole = Interval(lo, lo if bool((lo == hi).all()) else hi, mask)
    return whole, Edge(special, torch.where(certain, sign, 0.0))


def _computed(op: Elementwise, *operands: Tensor) -> Tensor:
    """The result of an operator with one output, floats in float64."""
    (y,) = flatten(op.torch(*operands))
    return y.double() if y.is_floating_point() else y


def exact(op: Elementwise, arity: int) -> bool:
    """Whether an operator is rounded at most once."""
    if op.exactness == "rounded":
        return True
    radius = op.radius(1.0, *[torch.ones(())] * (1 + arity))
    return not isinstance(radius, Tensor) and radius == 0


def _points(own: Interval, edge: Edge) -> list[Tensor]:
    """Points that represent each element: the special value; otherwise both ends of the interval
    and its possible zeros; for unknown values some of each kind.
    """
    if not own.lo.is_floating_point():
        return [own.lo] if own.exact else [own.lo, own.hi]
    holds = (own.lo <= 0) & (own.hi >= 0)
    unknown = own.mask() & (edge.special == 0)
    points = []
    for end, zero, any_ in (
        (own.lo, 1.0, torch.nan),
        (own.hi, -1.0, torch.inf),
        (torch.where(holds, 0.0, own.lo), 1.0, -1.0),
        (torch.where(holds, 0.0, own.lo), -1.0, 1.0),
    ):
        sign = torch.where(edge.sign == 0, zero, edge.sign)
        value = torch.where(end == 0, torch.copysign(torch.zeros_like(end), sign), end)
        value = torch.where(edge.special != 0, edge.special, value)
        points.append(torch.where(unknown, any_, value))
    distinct = [points[0]]
    for point in points[1:]:
        if not any(_same(point, other) for other in distinct):
            distinct.append(point)
    return distinct


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether tensors are equal bit for bit; all NaN are equal."""
    equal = (one == other) & (torch.signbit(one) == torch.signbit(other))
    return bool((equal | (torch.isnan(one) & torch.isnan(other))).all())


def _with_edge(own: Envelope, edge: Edge) -> Envelope:
    """The envelope with the values that are decided at edges."""
    if not own.dtype.is_float:
        return own
    special, sign = edge.special.numpy(), edge.sign.numpy()
    decided = special != 0
    lo, hi = (np.where(decided, special, end) for end in (own.lo, own.hi))
    masked = own.any & ~decided
    zero = np.where((lo == 0) & (hi == 0) & ~masked, sign, 0.0)
    return replace(own, lo=lo, hi=hi, any=masked, zero=zero)
