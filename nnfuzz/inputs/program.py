"""A concrete graph, prepared for running it many times in its own dtypes; the stability of values.

Floor, Cast to integers, comparisons, ArgMax and the like jump. An element so near to a jump that a
rounding error can move it across is unstable: neither it nor what depends on it can be compared
between compilers, so the search prefers parameters with few of them. An element exactly on the edge
counts as stable, since it is there by construction (a constant, an integer, equal operands).
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
    """The reason for which a node is violated."""

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
    """Runs the nodes of a graph with PyTorch; stops at the first one that is violated.

    Values are held in the carriers of their dtypes (nnfuzz.operators.carriers).
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

        Nodes before `start` are taken as computed already.
        """
        with torch.no_grad():
            for i in range(start, len(self.graph.nodes)):
                cause = self._step(i, values)
                if cause is not None:
                    return Violation(i, cause)
        return None

    def complete(self, values: Values) -> Violation | None:
        """Compute the missing values in place; the others do not change."""
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
        """The outputs of an operator; None for inputs outside of its domain."""
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
            if isinstance(op, Opaque):  # its indices are drawn, for no spec says how many there are
                return None
            if self._indexed_by_nodes(position):  # a near miss of positions that are counted
                return None
            raise

    def _indexed_by_nodes(self, position: int) -> bool:
        """Whether other nodes compute an index that a node reads."""
        node = self.graph.nodes[position]
        patterns = node.op.patterns(len(node.inputs))
        return any(p.index and n not in self.parameters for p, n in zip(patterns, node.inputs))

    def ancestors(self, position: int) -> tuple[list[int], set[str]]:
        """The nodes that a node depends on, in order, and all values they and it read."""
        needed = set(self.graph.nodes[position].inputs)
        nodes = []
        for i in range(position - 1, -1, -1):
            node = self.graph.nodes[i]
            if any(name in needed for name in node.outputs):
                nodes.append(i)
                needed.update(node.inputs)
        return nodes[::-1], needed

    def first_reader(self, names: set[str]) -> int:
        """The position of the first node that reads one of the values; the end if none does."""
        for i, node in enumerate(self.graph.nodes):
            if not names.isdisjoint(node.inputs):
                return i
        return len(self.graph.nodes)


def admitted_ranges(graph: Graph) -> dict[str, Range]:
    """Ranges of inputs and weights that the operators reading them admit, through data movement.

    Values without any bound are left out, and those with contradictory bounds.
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
    """The closed range of each index input."""
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
    """Whether all domain terms are <= 0 everywhere; NaN is not."""
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

    A finite sum proves it for a tenth of the cost; a sum may also overflow.
    """
    return math.isfinite(x.sum().item()) or bool(torch.isfinite(x).all())


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
