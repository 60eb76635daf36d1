"""The nodes at which elements of an output become incomparable."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nnfuzz.compare.envelope import Enclosure
from nnfuzz.compare.mismatch import Loss
from nnfuzz.compare.reference import PRECISIONS
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.foreign import Opaque
from nnfuzz.operators.intervals import Interval

MOST = 8
"""Nodes listed for one output: further ones usually are copies of these."""


def losses(bounds: Enclosure, outputs: Collection[str]) -> dict[str, tuple[Loss, ...]]:
    """By output, the first nodes before it that make incomparable results of comparable inputs.

    outputs: names of the partly or wholly incomparable outputs. At most `MOST` nodes each, in graph
    order.
    """
    tracked = _Tracked(bounds.graph, bounds.values, bounds.intervals)
    makers = {name: node for node in bounds.graph.nodes for name in node.outputs}
    by_output = {}
    with torch.inference_mode():
        for output in outputs:
            origins = tracked.origins(makers, output)
            by_output[output] = tuple(tracked.loss(output, node) for node in origins[:MOST])
    return by_output


@dataclass(frozen=True)
class _Tracked:
    """A graph with its reference values and the intervals around them."""

    graph: Graph
    values: Mapping[str, Tensor]
    intervals: Mapping[str, Interval]

    def origins(self, makers: Mapping[str, Node], output: str) -> list[Node]:
        """The nodes before an output that make incomparable elements of comparable inputs."""
        wanted, visited, origins = [output], set(), set()
        while wanted:
            name = wanted.pop()
            if name in visited or name not in makers or not self._loses(name):
                continue
            visited.add(name)
            node = makers[name]
            before = [n for n in node.inputs if n in makers and self._loses(n)]
            if not before or isinstance(node.op, Opaque):
                origins.add(node.outputs)
            wanted += before
        return [node for node in self.graph.nodes if node.outputs in origins]

    def _loses(self, name: str) -> bool:
        """Whether a value has incomparable elements."""
        interval = self.intervals[name]
        is_float = self.graph.type(name).dtype.is_float
        return bool((interval.mask() if is_float else interval.unsure).any())

    def loss(self, output: str, node: Node) -> Loss:
        lost = next((n for n in node.outputs if self._loses(n)), node.outputs[0])
        if isinstance(node.op, Opaque):
            names = dict.fromkeys(inner.op_type for inner in node.op.graph.node)
            has = "has" if len(names) == 1 else "have"
            name = ", ".join(names)
            return Loss(name, lost, f"{name} {has} no operator spec in nnfuzz")
        return Loss(node.op.name, lost, f"{node.op.name} {self._why(node, lost)}")

    def _why(self, node: Node, lost: str) -> str:
        """The reason why a node loses comparability, phrased to follow the operator's name."""
        interval, dtype = self.intervals[lost], self.graph.type(lost).dtype
        inputs = [self.intervals[name] for name in node.inputs]
        ends = [[b.lo for b in inputs], [b.hi for b in inputs]]
        undefined = node.op.undefined(*inputs)
        if undefined is not None and bool(undefined.any()):
            return "is undefined by ONNX for these inputs"
        if dtype.is_float and not bool(torch.isfinite(self.values[lost]).all()):
            return "has a result that is infinite or not a number"
        if any(bool((term > 0).any()) for end in ends for term in node.op.domain(*end)):
            return "may be outside of its domain"
        if not dtype.is_float and not bool(interval.mask().any()):
            return "decides over overlapping intervals"
        if dtype.is_float and bool(interval.mask().any()) and dtype in PRECISIONS:
            return f"may overflow {dtype.value}, or decides over overlapping intervals"
        return "has a result that no rule determines"
