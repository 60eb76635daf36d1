"""The envelope: an interval around the reference that contains the result of every correct
compiler.

Intervals are propagated through the graph operator by operator (`OpSpec.interval`) and widened by
the operator's rounding error (`OpSpec.radius`) in the working dtype. An element that overflows,
leaves an operator's domain or is undefined by ONNX becomes incomparable (masked), and so does every
element that depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nnfuzz.compare.reference import (
    PRECISIONS,
    Precision,
    ReferenceFault,
    is_single_integer,
    overflow_masked,
    reference,
    representable,
)
from nnfuzz.ir.dtypes import DType, plain
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.carriers import array, settled, unfit
from nnfuzz.operators.expanded import flat
from nnfuzz.operators.families.composite import Composite
from nnfuzz.operators.families.sums import Summing
from nnfuzz.operators.intervals import Interval, everywhere
from nnfuzz.operators.operator import OpSpec, flatten
from nnfuzz.operators.rounding import sum_radius, underflow


@dataclass(frozen=True, eq=False)
class Envelope:
    """Reference and bounds of one output, as arrays in float64 (or the discrete dtype).

    any: bool array, True for elements that cannot be compared. NaN or an infinity as both bounds
    demands that value. zero: 1 or -1 where a zero must have that sign, else 0; None if no sign is
    demanded (nnfuzz.compare.edges).
    """

    dtype: DType
    ref: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    any: np.ndarray
    zero: np.ndarray | None = None

    @property
    def comparable(self) -> np.ndarray:
        """Mask of the elements that are compared; a discrete element needs lo == hi."""
        return ~self.any if self.dtype.is_float else ~self.any & (self.lo == self.hi)

    @cached_property
    def ulp(self) -> np.ndarray:
        """One unit in the last place of the dtype at the reference, in float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.abs(self.ref).astype(self.dtype.numpy)
            return np.nan_to_num(np.spacing(near).astype(np.float64), posinf=0.0)

    @cached_property
    def admitted(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of a verdict: lo and hi, moved outwards by one ULP if the dtype is a float."""
        if not self.dtype.is_float:
            return self.lo, self.hi
        return self.lo - self.ulp, self.hi + self.ulp


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A graph with its reference values, the intervals around them, and its outputs' envelopes.

    graph: foreign operators are replaced by known ones if possible (nnfuzz.operators.expanded).
    values, intervals: by value name. envelopes: by output. params: inputs and weights by name.
    """

    graph: Graph
    values: Mapping[str, Tensor]
    intervals: Mapping[str, Interval]
    envelopes: dict[str, Envelope]
    params: Mapping[str, np.ndarray]

    @cached_property
    def defined(self) -> bool:
        """Whether the discrete inputs of every node are surely inside of the node's domain."""
        return all(defined(node, self.graph, self.intervals) for node in self.graph.nodes)


def envelopes(graph: Graph, params: Mapping[str, np.ndarray]) -> dict[str, Envelope]:
    """Envelopes of the graph's outputs. Raises: ReferenceFault."""
    return enveloped(graph, params).envelopes


def enveloped(graph: Graph, params: Mapping[str, np.ndarray]) -> Enclosure:
    """The reference of a graph and the envelopes around it. Raises: ReferenceFault."""
    graph, params = flat(graph, params)
    values = reference(graph, params)
    intervals = propagate(graph, values)
    envelopes = {n: envelope(graph.type(n).dtype, values[n], intervals[n]) for n in graph.outputs}
    return Enclosure(graph, values, intervals, envelopes, params)


def defined(node: Node, graph: Graph, intervals: Mapping[str, Interval]) -> bool:
    """Whether the discrete inputs of a node are surely inside of its domain.

    If not, a correct compiler may raise an error, for example at a division by an integer that may
    be 0. Floats outside of the domain only give NaN or infinity.
    """
    inputs = [intervals[name] for name in node.inputs]
    pairs = zip(node.inputs, inputs, strict=True)
    discrete = [b for n, b in pairs if not graph.type(n).dtype.is_float]
    unsure = any(bool(b.unsure.any()) for b in discrete if not b.exact or b.any is not None)
    # With special values among the inputs, integers may leave the domain with certainty.
    if not unsure and (not discrete or len(discrete) < len(inputs)):
        return True
    terms = [*node.op.domain(*(b.lo for b in inputs)), *node.op.domain(*(b.hi for b in inputs))]
    masked = any(bool(b.mask().any()) for b in discrete)
    return not terms if masked else all(bool((term <= 0).all()) for term in terms)


def envelope(dtype: DType, ref: Tensor, interval: Interval) -> Envelope:
    """The envelope of one output of this dtype, from its reference and interval."""
    middle, lo, hi = (
        t.numpy() if dtype.is_float else plain(array(t, dtype))
        for t in (ref, interval.lo, interval.hi)
    )
    return Envelope(dtype, middle, lo, hi, interval.mask().numpy())


def propagate(graph: Graph, values: Mapping[str, Tensor]) -> dict[str, Interval]:
    """The interval of every value of the graph, by name. values: the reference, by name."""
    with torch.inference_mode():
        parameters = (*graph.inputs, *graph.weights)
        intervals = {n: given(values[n], graph.type(n).dtype) for n in parameters}
        for node in graph.nodes:
            node_intervals(graph, node, values, intervals)
    return intervals


def given(x: Tensor, dtype: DType) -> Interval:
    """The interval of an input or weight. It includes 0 if a compiler may flush the value."""
    if dtype.is_float:
        size = x.abs()
        lost = (size < underflow(dtype.unit_roundoff)) & (size > 0)
        if bool(lost.any()):
            zero = torch.zeros_like(x)
            return Interval(
                torch.where(lost, x.minimum(zero), x), torch.where(lost, x.maximum(zero), x)
            )
    return Interval(x, x)


def node_intervals(
    graph: Graph,
    node: Node,
    values: Mapping[str, Tensor],
    intervals: dict[str, Interval],
    working: Mapping[DType, Precision] = PRECISIONS,
) -> None:
    """Add the intervals of one node's outputs to `intervals`. working: precision by dtype."""
    inputs = [
        Tracked(values[n], _entering(graph, node, n, values, intervals, working))
        for n in node.inputs
    ]
    refs = [values[n] for n in node.outputs]
    precisions = [working.get(graph.values[n].type.dtype) for n in node.outputs]
    dtypes = [graph.values[n].type.dtype for n in node.inputs]
    u = max((working[d].u for d in dtypes if d in working), default=0.0)
    results = enclosed(node.op, inputs, refs, precisions, u)
    if DType.UINT64 in dtypes and unfit(node.op, [x.interval.lo for x in inputs], dtypes):
        results = [interval.masked(everywhere(interval.lo)) for interval in results]
    for name, interval in zip(node.outputs, results, strict=True):
        intervals[name] = _settled(interval, graph.values[name].type.dtype)


def _entering(
    graph: Graph,
    node: Node,
    name: str,
    values: Mapping[str, Tensor],
    intervals: Mapping[str, Interval],
    working: Mapping[DType, Precision],
) -> Interval:
    """The interval of a node's input, widened if a compiler may fuse the node into the input's sum.

    MatMul and Add may become a Gemm whose sum starts with the bias, so that every step rounds it.
    The factor of a Mul or BatchNormalization may be folded into the weights of a Conv. Sums of
    integers stay exact if only integers are added.
    """
    interval = intervals[name]
    precision = PRECISIONS.get(graph.type(name).dtype)
    if precision is None or not _may_fuse(node, name, intervals):
        return interval
    maker = next((n for n in graph.nodes if name in n.outputs), None)
    if maker is None or maker.op.exactness != "sum":
        return interval
    inputs = [intervals[n] for n in maker.inputs]
    if all(is_single_integer(b) for b in inputs):
        interval = _widened(maker.op, precision, values[name], interval, inputs, alone=False)
    if node.op.joining != "term":
        return interval
    others = [intervals[n] for n in node.inputs if n != name]
    return _started_with_addend(interval, maker.op, inputs, others, precision)


def _settled(interval: Interval, dtype: DType) -> Interval:
    """The interval with its ends reduced to the range of the dtype."""
    if not dtype.carried or dtype.is_float:
        return interval
    lo = settled(interval.lo, dtype)
    return Interval(lo, lo if interval.exact else settled(interval.hi, dtype), interval.any)


@dataclass(frozen=True, eq=False, slots=True)
class Tracked:
    """A reference tensor and the interval around it."""

    ref: Tensor
    interval: Interval

    @property
    def shape(self) -> torch.Size:
        return self.ref.shape


def enclosed(
    op: OpSpec,
    inputs: Sequence[Tracked],
    refs: Sequence[Tensor],
    precisions: Sequence[Precision | None],
    u: float = 0.0,
) -> list[Interval]:
    """Intervals of the outputs of one operator around their references, rounding included.

    refs: reference outputs. precisions: working precision per output, None for discrete ones. u:
    greatest unit roundoff of the inputs' dtypes. Raises: ReferenceFault.
    """
    if isinstance(op, Composite):
        return _composed(op, inputs, refs, precisions, u)
    intervals = [x.interval for x in inputs]
    try:
        undefined = op.undefined(*intervals)
        bounds = _interval(op, u, intervals, refs)
    except Exception as error:
        raise ReferenceFault(f"interval of {op!r}: {error}") from error
    result = []
    for ref, interval, precision in zip(refs, bounds, precisions, strict=True):
        if undefined is not None:
            interval = interval.masked(undefined.expand(interval.lo.shape))
        if precision is not None:
            interval = overflow_masked(
                _widened(op, precision, ref, interval, intervals), ref, precision
            )
        result.append(interval)
    return result


def admitted(
    op: OpSpec, tensors: Sequence[Tensor], dtypes: Sequence[DType], u: float = 0.0
) -> list[Interval]:
    """Intervals of the results of correct implementations for exact inputs; floats in float64.

    dtypes: of the outputs. u: the greatest unit roundoff of the inputs' dtypes.
    Raises: ReferenceFault.
    """
    refs = [y.double() if y.is_floating_point() else y for y in flatten(op.torch(*tensors))]
    inputs = [Tracked(x, Interval(x, x)) for x in tensors]
    bounds = enclosed(op, inputs, refs, [PRECISIONS.get(d) for d in dtypes], u)
    return [_settled(interval, dtype) for interval, dtype in zip(bounds, dtypes, strict=True)]


def _composed(
    op: Composite,
    inputs: Sequence[Tracked],
    refs: Sequence[Tensor],
    precisions: Sequence[Precision | None],
    u: float,
) -> list[Interval]:
    """`enclosed` for a composite operator, step by step. Floats inside have the outputs' precision
    or, if no output is a float, the one with unit roundoff `u`."""
    of_inputs = (p for p in PRECISIONS.values() if p.u == u)
    precision = next((p for p in (*precisions, *of_inputs) if p is not None), None)
    u = precision.u if precision else 0.0

    def apply(inner: OpSpec, *args: Tracked) -> Tracked | list[Tracked]:
        steps = list(flatten(inner.torch(*[x.ref for x in args])))
        own = [precision if y.is_floating_point() else None for y in steps]
        tracked = [Tracked(*pair) for pair in zip(steps, enclosed(inner, args, steps, own, u))]
        return tracked[0] if len(tracked) == 1 else tracked

    results = op.compose(apply, *inputs)
    return [_around(y.interval, ref) for y, ref in zip(results, refs, strict=True)]


def _interval(
    op: OpSpec, u: float, inputs: list[Interval], refs: Sequence[Tensor]
) -> list[Interval]:
    """Output intervals before rounding: `op.decided`, or the reference for exact inputs, or
    `op.interval`."""
    intervals = op.decided(u, *inputs)
    if intervals is None:
        if all(b.exact and b.any is None for b in inputs):
            return [Interval(ref, ref) for ref in refs]
        intervals = op.interval(*inputs)
    return [_around(interval, ref) for interval, ref in zip(intervals, refs, strict=True)]


def _around(interval: Interval, ref: Tensor) -> Interval:
    """The interval in the dtype of the reference, extended to include the reference."""
    if interval.lo.shape != ref.shape or interval.hi.shape != ref.shape:
        raise ValueError(f"interval of shape {list(interval.lo.shape)} around {list(ref.shape)}")
    if interval.exact:
        return Interval(ref, ref, interval.any)
    lo, hi = interval.lo, interval.hi
    if lo.dtype is not ref.dtype:
        lo, hi = lo.to(ref.dtype), hi.to(ref.dtype)
    if ref.dtype is torch.bool:
        return Interval(lo & ref, hi | ref, interval.any)
    return Interval(torch.minimum(lo, ref), torch.maximum(hi, ref), interval.any)


def _widened(
    op: OpSpec,
    precision: Precision,
    ref: Tensor,
    interval: Interval,
    inputs: list[Interval],
    alone: bool = True,
) -> Interval:
    """The interval widened by the rounding error of a correct implementation of this operator.

    alone: False if a compiler may fuse the operator, so that even exact results get an error.
    """
    far = interval.far()
    radius = op.radius(precision.u, far, *[b.far() for b in inputs])
    if op.kinked and not interval.exact:
        for ends in ([b.lo for b in inputs], [b.hi for b in inputs]):
            there = op.radius(precision.u, far, *ends)
            radius = torch.maximum(torch.as_tensor(radius), torch.as_tensor(there))
    if isinstance(radius, float | int):
        if radius == 0:
            return interval
        radius = torch.full_like(ref, radius)
    # Radius 0 means exact, except below `tiny`, where the product with u may itself underflow.
    inexact = (radius != 0) | ((far != 0) & (far.abs() < precision.tiny))
    radius = radius + _own_error(op, precision, far, radius) + precision.tiny
    radius = torch.where(inexact, radius, 0.0)
    if op.exactness and alone:
        radius = radius.masked_fill(_error_free(op, precision, interval, inputs), 0.0)
        if not bool(radius.any()):
            return interval
    lo, hi = interval.lo - radius, interval.hi + radius
    if isinstance(op, Summing) and op.adding and all(bool((b.lo >= 0).all()) for b in inputs):
        lo = lo.clamp(min=0)  # so is their sum or mean, in any order
    return _clipped(op, interval, Interval(lo, hi, interval.any), precision)


def _own_error(op: OpSpec, precision: Precision, far: Tensor, radius: Tensor) -> Tensor | float:
    """The rounding error of the reference itself, which matters only for outputs in float64."""
    if precision.twice == 1:
        return 0.0
    return torch.minimum(radius, REFERENCE * precision.u * far.abs()) if op.sharp else radius


REFERENCE = 2.0
"""PyTorch's error in float64 for operators with OpSpec.sharp, in unit roundoffs: one ULP."""


def _clipped(op: OpSpec, interval: Interval, wide: Interval, precision: Precision) -> Interval:
    """The widened interval, cut to what rounding can do.

    Rounding cannot leave `op.within`, change a sign, take away half of a number that does not
    underflow, or turn a number into an infinity unless it is half a unit in the last place beyond
    the greatest one.
    """
    (least, most), lo, hi = op.within, wide.lo, wide.hi
    if op.exactness == "rounded":
        greatest, near = precision.greatest, precision.greatest * (1 + precision.u)
        lo = torch.where(interval.lo > -near, lo.clamp(min=-greatest), lo)
        hi = torch.where(interval.hi < near, hi.clamp(max=greatest), hi)
    if op.keeps_sign or op.exactness == "rounded":
        halves = interval.lo / 2 - precision.tiny, interval.hi / 2 + precision.tiny
        lo = torch.where(interval.lo >= 0, lo.maximum(halves[0].clamp(min=0)), lo)
        hi = torch.where(interval.hi <= 0, hi.minimum(halves[1].clamp(max=0)), hi)
    # A rounding error may put the reference itself outside of `op.within`.
    if least > -math.inf:
        lo = torch.minimum(lo.clamp(min=least), interval.lo)
    if most < math.inf:
        hi = torch.maximum(hi.clamp(max=most), interval.hi)
    return Interval(lo, hi, wide.any)


def _error_free(
    op: OpSpec, precision: Precision, interval: Interval, inputs: list[Interval]
) -> Tensor:
    """Mask of elements that every implementation computes without any error."""
    y = interval.lo
    if op.exactness == "sum":
        if not all(is_single_integer(b) for b in inputs):
            return torch.zeros_like(y, dtype=torch.bool)
        # Every partial sum, in any order, is an integer below 1/u, so it is representable.
        return op.torch(*[b.lo.abs() for b in inputs]) < 1 / precision.u
    free = representable(y, precision, inputs)
    if not interval.exact:
        free = free & (y == interval.hi)
    rounded = op.inexact(*inputs)
    return free if rounded is None else free & ~rounded.expand(y.shape)


# -- operators that a compiler may fuse into the sum before them (`OpSpec.joining`) ---------------


def _may_fuse(node: Node, name: str, intervals: Mapping[str, Interval]) -> bool:
    """Whether a compiler may fuse a node with the sum that computes its input `name`."""
    if not node.op.joining or len(set(node.inputs)) == 1:
        return False
    if node.op.joining == "first":
        return name == node.inputs[0]
    return not all(is_single_integer(intervals[n]) for n in node.inputs)


HALF_ULP = 0.25
"""Half a unit in the last place of x is at least 0.5 times unit roundoff times x; 0.25 is safe."""


def _started_with_addend(
    interval: Interval,
    maker: OpSpec,
    inputs: Sequence[Interval],
    others: Sequence[Interval],
    precision: Precision,
) -> Interval:
    """The interval of a sum, widened by the error of starting it with a later addend (a bias).

    maker, inputs: the node that computes the sum. others: the addends. Every step then rounds the
    addend too, so a large one costs digits. If all terms are below half a unit in its last place,
    it costs none: every step rounds to the addend itself.
    """
    if not isinstance(maker, Summing):
        return interval
    far = [b.far() for b in inputs]
    steps, terms = maker.terms(*far), maker.absolute(*far)
    for other in others:
        if _fits(other, interval):
            size = other.far().abs()
            error = precision.twice * sum_radius(precision.u, steps, size)
            error = torch.where(terms < HALF_ULP * precision.u * size, 0.0, error)
            interval = Interval(interval.lo - error, interval.hi + error, interval.any)
    return interval


def _fits(part: Interval, interval: Interval) -> bool:
    """Whether `part` can be broadcast to the shape of `interval`."""
    sizes = zip(reversed(part.lo.shape), reversed(interval.lo.shape))
    return part.lo.ndim <= interval.lo.ndim and all(a in (1, b) for a, b in sizes)
