"""Envelopes for inputs with special values: NaN, infinities, signed zeros ("at edges").

An abstract value accompanies the interval of every element (`nnfuzz.compare.envelope`): a number in
the interval, perhaps with the sign of a zero; NaN; an infinity; or unknown. Operators change it by
these rules:

- Data movement and selection by a known condition (`edges_of_moved`, `_selected`) copy the abstract
  value of the chosen element.
- An elementwise operator with results prescribed by IEEE 754 or ONNX (`OpSpec.edges`) is computed
  at all points that represent its operands: the ends of an interval, both zeros if the sign is
  unknown, NaN, an infinity. If all results agree, the result is determined (`_agreed`); they
  disagree next to a pole, at the end of a domain and where something may overflow.
- Operators with `OpSpec.carries_nan` return NaN for every element that depends on a NaN.
- Operators with `OpSpec.leaves_out`, such as Softmax, ignore elements of -inf, as attention masks
  need.
- Any other operator has a known result only if all operands are numbers inside of its domain.

The sign of a zero is determined if the operator is exact or rounds once (IEEE 754-2019, clause
6.3), except for a number that a compiler may flush to zero.
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
"""A number x so large that exp(-x) = 0 even in float64."""
_SCALE = 2.0**-500
"""Factor on operands: a result that stays infinite for scaled operands is a pole, no overflow."""


@dataclass(frozen=True, eq=False, slots=True)
class Edge:
    """The special values of a float tensor's elements, as float64 tensors of the same shape.

    special: NaN or an infinity where every correct implementation returns it (the interval is
    masked there), else 0. sign: 1 or -1 where an exact zero must have that sign, else 0.
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
    """The envelopes that a verdict rests on, with rules for special values if any are present.

    The rules apply if inputs or weights hold NaN, an infinity or -0.0, or outputs hold NaN or an
    infinity. expected: PyTorch's outputs, if known. edges: apply the rules in any case. Raises:
    ReferenceFault.
    """
    wanted = edges or beyond(params) or strange(expected)
    return (enveloped_at_edges if wanted else enveloped)(graph, params)


def enveloped_at_edges(graph: Graph, params: Arrays) -> Enclosure:
    """`enveloped`, with NaN, infinities and signs of zeros demanded where they are determined.

    Raises: ReferenceFault.
    """
    graph, params = flat(graph, params)
    values = reference(graph, {name: params[name] for name in (*graph.inputs, *graph.weights)})
    intervals: dict[str, Interval] = {}
    edges: dict[str, Edge] = {}
    with torch.inference_mode():
        for name in (*graph.inputs, *graph.weights):
            intervals[name], edges[name] = _given(values[name], graph.type(name).dtype)
        for node in graph.nodes:
            here = intervals | _without_ignored(node, intervals, edges)
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
    """The interval, unmasked where NaN or an infinity is determined and therefore compared."""
    if own.any is None:
        return own
    mask = own.any & (edge.special == 0)
    return Interval(own.lo, own.lo if own.exact else own.hi, mask if bool(mask.any()) else None)


def _without_ignored(
    node: Node, intervals: Mapping[str, Interval], edges: Mapping[str, Edge]
) -> dict[str, Interval]:
    """The node's operands with -inf replaced by a finite number, if the operator ignores -inf. The
    number is so low that its exponential is 0 beside the others. Softmax over nothing but -inf
    stays undetermined, because the reference yields NaN."""
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
    """The interval with the number `low`, unmasked, in the elements selected by `gone`."""
    lo, hi = (torch.where(gone, low, end) for end in (own.lo, own.hi))
    mask = own.mask() & ~gone
    return Interval(lo, lo if own.exact else hi, mask if bool(mask.any()) else None)


def _given(x: Tensor, dtype: DType) -> tuple[Interval, Edge]:
    """The interval and special values of an input or weight, where NaN and infinities are masked.
    The interval includes 0 if a compiler may flush the number to zero."""
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
    """The intervals and special values of a node's outputs. intervals: of inputs and outputs, where
    the outputs' still ignore special values."""
    plain = [(intervals[name], Edge.none(intervals[name].lo)) for name in node.outputs]
    inputs = [(intervals[name], edges[name]) for name in node.inputs]
    if not inputs:
        return plain
    if not node.op.edges:
        # Some domains end at the greatest number of the dtype, so they are checked in that dtype.
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
    """NaN as special value of each result that depends on a NaN, if the operator propagates NaN.

    The operator runs on ones, with and without the NaN. Returns None per output if there is no NaN.
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
    """The special values of a data movement's outputs, copied from the inputs' elements. Elements
    that come from no input are constants, taken from the reference outputs `refs`."""
    starts = np.cumsum([0, *(own.lo.numel() for own, _ in inputs)])
    places = [
        torch.arange(start, start + own.lo.numel(), dtype=torch.float64).reshape(own.lo.shape)
        for start, (own, _) in zip(starts, inputs)
    ]
    # Outputs that shift with the numbered inputs are copies of input elements.
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
    """The special values of Where(condition, x, y), where the condition is known."""
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
    """The result of an elementwise operator, if all points that represent the operands agree on it.

    interval: of the results for numbers, masked where an operand is NaN, infinite or unknown.
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
    if not precise:  # implementations may overflow early, as exp(x) inside of cosh(x) does
        mask = mask | (torch.maximum(lo.abs(), hi.abs()) > dtype.limits[1] / 4)
    zero = (lo == 0) & (hi == 0) & ~mask
    sign = torch.copysign(torch.ones_like(lo), first)
    agree = (torch.copysign(torch.ones_like(lo), y) == sign for y in results)
    certain = zero & reduce(torch.logical_and, agree) & precise
    whole = Interval(lo, lo if bool((lo == hi).all()) else hi, mask)
    return whole, Edge(special, torch.where(certain, sign, 0.0))


def _computed(op: Elementwise, *operands: Tensor) -> Tensor:
    (y,) = flatten(op.torch(*operands))
    return y.double() if y.is_floating_point() else y


def exact(op: Elementwise, arity: int) -> bool:
    """Whether an operator with `arity` inputs is rounded at most once."""
    if op.exactness == "rounded":
        return True
    radius = op.radius(1.0, *[torch.ones(())] * (1 + arity))
    return not isinstance(radius, Tensor) and radius == 0


def _points(own: Interval, edge: Edge) -> list[Tensor]:
    """Points that represent each element: the special value if there is one, NaN, inf, -1 and 1 if
    it is unknown, else both ends of the interval and the zeros that it may hold."""
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
    """Whether two tensors are equal bit for bit; all NaN count as equal."""
    equal = (one == other) & (torch.signbit(one) == torch.signbit(other))
    return bool((equal | (torch.isnan(one) & torch.isnan(other))).all())


def _with_edge(own: Envelope, edge: Edge) -> Envelope:
    """The envelope with the determined special values as bounds, and the signs of zeros."""
    if not own.dtype.is_float:
        return own
    special, sign = edge.special.numpy(), edge.sign.numpy()
    decided = special != 0
    lo, hi = (np.where(decided, special, end) for end in (own.lo, own.hi))
    masked = own.any & ~decided
    zero = np.where((lo == 0) & (hi == 0) & ~masked, sign, 0.0)
    return replace(own, lo=lo, hi=hi, any=masked, zero=zero)
