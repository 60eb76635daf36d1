"""Runs a concrete graph many times in its own dtypes, and measures how stable its values are.

Floor, Cast to integers, comparisons, ArgMax and the like are discontinuous. An element so close to
a discontinuity that a rounding error can move it across is unstable: compilers may differ in it and
in all values that depend on it, so the search prefers parameters with few unstable elements. An
element exactly at the discontinuity counts as stable, since it is there by construction (a
constant, an integer, equal operands).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.carriers import settled, unfit
from nnfuzz.operators.families.composite import Composite
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.foreign import Opaque
from nnfuzz.operators.operator import ANY_RANGE, OpSpec, Range, flatten


class InvalidCause(Enum):
    """The reason why a node is violated."""

    DOMAIN = "outside of its domain"
    FINITE = "not finite"
    EDGE = "next to a discontinuity"


@dataclass(frozen=True)
class Violation:
    """The topologically first node, by position, whose result is not valid."""

    position: int
    cause: InvalidCause


Values = dict[str, Tensor]


class Program:
    """Runs the nodes of a graph with PyTorch and stops at the first one that is violated.

    Dtypes in which PyTorch cannot compute are held in wider ones (nnfuzz.operators.carriers).
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.parameters = [*graph.inputs, *graph.weights]
        self.dtypes: dict[str, DType] = {n: v.type.dtype for n, v in graph.values.items()}
        self._special = [type(node.op).domain is not OpSpec.domain for node in graph.nodes]
        large = {name for name, dtype in self.dtypes.items() if dtype is DType.UINT64}
        self._large = [bool(large) and not large.isdisjoint(n.inputs) for n in graph.nodes]

    def run(self, values: Values, start: int = 0) -> Violation | None:
        """Compute every value from the parameters in `values`, in place.

        Nodes before position `start` count as computed already.
        """
        with torch.no_grad():
            for i in range(start, len(self.graph.nodes)):
                cause = self._step(i, values)
                if cause is not None:
                    return Violation(i, cause)
        return None

    def complete(self, values: Values) -> Violation | None:
        """Compute the missing values in place; existing values do not change."""
        with torch.no_grad():
            for i, node in enumerate(self.graph.nodes):
                if any(name not in values for name in node.outputs):
                    cause = self._step(i, values)
                    if cause is not None:
                        return Violation(i, cause)
        return None

    def _step(self, position: int, values: Values) -> InvalidCause | None:
        node = self.graph.nodes[position]
        inputs = [values[name] for name in node.inputs]
        if self._large[position] and unfit(node.op, inputs, [self.dtypes[n] for n in node.inputs]):
            return InvalidCause.DOMAIN
        results = self._results(position, inputs)
        if results is None:
            return InvalidCause.DOMAIN
        for name, result in zip(node.outputs, flatten(results), strict=True):
            dtype = self.dtypes[name]
            if dtype.is_float and not all_finite(result):
                return InvalidCause.FINITE
            values[name] = settled(result, dtype) if dtype.carried else result
        return None

    def _results(self, position: int, inputs: Sequence[Tensor]) -> Any:
        """The outputs of an operator; None if its inputs are outside of its domain."""
        op = self.graph.nodes[position].op
        try:
            if isinstance(op, Composite):
                terms, results = op.attempt(*inputs)
                return results if terms_hold(terms) else None
            if self._special[position]:
                valid = terms_hold(op.domain(*inputs))
            else:
                valid = within_ranges(inputs, op.valid)
            return op.torch(*inputs) if valid else None
        except IndexError:
            if isinstance(op, Opaque):  # without a spec, the range of its indices is unknown
                return None
            if self._indexed_by_nodes(position):  # a mutated motif may compute invalid indices
                return None
            raise

    def _indexed_by_nodes(self, position: int) -> bool:
        """Whether another node computes an index that this node reads."""
        node = self.graph.nodes[position]
        patterns = node.op.patterns(len(node.inputs))
        return any(p.index and n not in self.parameters for p, n in zip(patterns, node.inputs))

    def ancestors(self, position: int) -> tuple[list[int], set[str]]:
        """Positions of a node's ancestors in order, and all values that they and the node read."""
        needed = set(self.graph.nodes[position].inputs)
        nodes = []
        for i in range(position - 1, -1, -1):
            node = self.graph.nodes[i]
            if any(name in needed for name in node.outputs):
                nodes.append(i)
                needed.update(node.inputs)
        return nodes[::-1], needed

    def first_reader(self, names: set[str]) -> int:
        """The position of the first node that reads one of the values, or the number of nodes."""
        for i, node in enumerate(self.graph.nodes):
            if not names.isdisjoint(node.inputs):
                return i
        return len(self.graph.nodes)


def admitted_ranges(graph: Graph) -> dict[str, Range]:
    """Ranges of inputs and weights in which their readers are valid, also behind data movement.

    Values without bounds or with contradictory bounds are left out.
    """
    found: dict[str, Range] = {}
    for node in reversed(graph.nodes):
        if isinstance(node.op, DataMovement):
            bounds = [found[name] for name in node.outputs if name in found]
            claims = [(name, b) for b in bounds for name in node.inputs]
        else:
            claims = [(name, b) for name, b in zip(node.inputs, node.op.valid) if b is not None]
        for name, (lo, hi) in claims:
            least, most = found.get(name, ANY_RANGE)
            found[name] = max(lo, least), min(hi, most)
    return {n: found[n] for n in (*graph.inputs, *graph.weights) if n in found and _wide(found[n])}


def _wide(range_: Range) -> bool:
    return range_[0] < range_[1]


def index_ranges(graph: Graph) -> dict[str, tuple[float, float]]:
    """The closed range of each value that some node reads as an index."""
    found: dict[str, tuple[float, float]] = {}
    for node in graph.nodes:
        if node.op.reads_indices():
            for name, bounds in zip(node.inputs, _integer_ranges(node, graph)):
                if bounds is not None:
                    lo, hi = found.get(name, bounds)
                    found[name] = max(lo, bounds[0]), min(hi, bounds[1])
    return found


def _integer_ranges(node: Node, graph: Graph) -> Sequence[tuple[float, float] | None]:
    return node.op.integer_range(*graph.types(node.inputs))


def terms_hold(terms: Sequence[Tensor]) -> bool:
    """Whether all terms of OpSpec.domain are <= 0 everywhere, that is, valid; NaN is not."""
    return False not in [term.max().item() <= 0 for term in terms if term.numel()]


def within_ranges(tensors: Sequence[Tensor], valid: Sequence[Range | None]) -> bool:
    """Whether every element lies in the closed range of its tensor; NaN does not."""
    for tensor, bounds in zip(tensors, valid):
        if bounds is not None and tensor.numel():
            lo, hi = bounds
            if lo > -math.inf and not lo <= tensor.min().item():
                return False
            if hi < math.inf and not tensor.max().item() <= hi:
                return False
    return True


def all_finite(x: Tensor) -> bool:
    """Whether a floating tensor has neither NaN nor infinity.

    A finite sum proves it at a tenth of the cost; a sum may also overflow.
    """
    return math.isfinite(x.sum().item()) or bool(torch.isfinite(x).all())


AMPLIFIED = 32
"""Distance from a discontinuity, in ULP, below which an element is unstable: errors accumulate."""


def tolerance(inputs: list[Tensor]) -> float:
    """Distance from a discontinuity below which rounding may decide, given a node's inputs."""
    floats = [x for x in inputs if x.is_floating_point() and x.numel()]
    if not floats:
        return 0.0
    size = max([abs(end.item()) for x in floats for end in torch.aminmax(x.detach())])
    return AMPLIFIED * torch.finfo(floats[0].dtype).eps * (0.5 + size)


def decisive(program: Program) -> list[int]:
    """Positions of nodes with a discontinuity, except where both operands are the same value."""
    return [
        i
        for i, node in enumerate(program.graph.nodes)
        if type(node.op).margins is not OpSpec.margins
        and len(set(node.inputs)) == len(node.inputs)
        and any(program.dtypes[name].is_float for name in node.inputs)
    ]


def shaky(program: Program, positions: list[int], values: Values) -> Iterator[tuple[int, int, int]]:
    """(position, unstable elements, all elements) of every node in `positions`."""
    for i in positions:
        node = program.graph.nodes[i]
        inputs = [values[name] for name in node.inputs]
        margins = [m for m in node.op.margins(*inputs) if m.numel()]
        if margins:
            near = tolerance(inputs)
            count = sum(_between(m, near) for m in margins)
            yield i, count, sum(m.numel() for m in margins)


def _between(margin: Tensor, near: float) -> int:
    """Number of elements in (0, near). It is usually 0, which the minimum shows quickly."""
    least = margin.min().item()
    if least >= near:
        return 0
    return int(torch.count_nonzero((margin > 0) & (margin < near)))


def stable_share(program: Program, positions: list[int], values: Values) -> float:
    """Share of stable elements, averaged over the nodes in `positions`; 1 if there are none."""
    with torch.no_grad():
        shares = [1 - count / total for _, count, total in shaky(program, positions, values)]
    return sum(shares) / len(shares) if shares else 1.0


def least_stable(program: Program, positions: list[int], values: Values) -> int | None:
    """The first node, by position, with an unstable element."""
    with torch.no_grad():
        return next((i for i, count, _ in shaky(program, positions, values) if count), None)
