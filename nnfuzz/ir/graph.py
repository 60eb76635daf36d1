"""The dataflow graph: values, nodes in topological order, and their JSON form.

While a graph grows, its types and attributes may be symbolic; `Graph.concrete` evaluates them. Only
generation sees symbolic graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nnfuzz.base.reading import Json, JsonObject
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Var
from nnfuzz.ir.types import TensorType
from nnfuzz.ir.view import GraphError, GraphView, NodeView, ValueView

if TYPE_CHECKING:
    from nnfuzz.operators.operator import OpSpec

    SpecByName = Callable[[str], type[OpSpec]]

__all__ = ["Graph", "GraphError", "Node", "Value", "pruned"]


@dataclass(slots=True, eq=False)
class Value:
    """A tensor of a graph, with a unique name. Name and type never change."""

    name: str
    type: TensorType

    def __repr__(self) -> str:
        return f"{self.name}: {self.type!r}"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One application of an operator to named values."""

    op: OpSpec
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __repr__(self) -> str:
        return f"{', '.join(self.outputs)} = {self.op!r}({', '.join(self.inputs)})"


@dataclass
class Graph:
    """Nodes in topological order over named values.

    inputs: fed at run time. weights: constants of the model. outputs: returned. prescribed: closed
    ranges for the elements of some weights; if both ends are equal, all elements have that value.
    """

    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    prescribed: dict[str, tuple[float, float]] = field(default_factory=dict)

    def type(self, name: str) -> TensorType:
        """The type of a value. Raises: KeyError."""
        return self.values[name].type

    def types(self, names: Iterable[str]) -> list[TensorType]:
        """The types of several values."""
        return [self.values[name].type for name in names]

    def producer(self) -> dict[str, Node]:
        """The node that computes each value, except for inputs and weights."""
        return {name: node for node in self.nodes for name in node.outputs}

    def consumers(self) -> dict[str, list[Node]]:
        """The nodes that read each value; an empty list where none does."""
        readers: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                readers[name].append(node)
        return readers

    def concrete(self, env: Mapping[Var, int]) -> Graph:
        """The graph with every dimension and attribute evaluated under `env`."""
        memo: dict[Any, Any] = {}
        return Graph(
            {n: Value(n, v.type.concrete(env, memo)) for n, v in self.values.items()},
            [Node(n.op.concrete(env, memo), n.inputs, n.outputs) for n in self.nodes],
            list(self.inputs),
            list(self.weights),
            list(self.outputs),
            dict(self.prescribed),
        )

    def verify(self) -> None:
        """Check every invariant of a concrete graph.

        Raises: GraphError if a name is undefined, defined twice or out of order, a declared type
        differs from `type_transfer`, or an operator's `requires` does not hold.
        """
        defined = list(self.inputs) + list(self.weights)
        known = set(defined)
        if len(known) != len(defined):
            raise GraphError(f"an input or weight is listed twice: {defined}")
        for node in self.nodes:
            self._verify_node(node, known)
        for name in self.outputs:
            if name not in known:
                raise GraphError(f"output {name} is not computed by any node")
        if set(self.values) != known:
            raise GraphError(f"values without a definition: {sorted(set(self.values) - known)}")

    def _verify_node(self, node: Node, known: set[str]) -> None:
        for name in node.inputs:
            if name not in known:
                raise GraphError(f"{node!r} reads {name} before it is defined")
        types = self.types(node.inputs)
        node.op.check(*types)
        inferred = node.op.type_transfer(*types)
        declared = self.types(node.outputs)
        if [(t.dtype, t.shape) for t in inferred] != [(t.dtype, t.shape) for t in declared]:
            raise GraphError(f"{node!r} yields {inferred}, but {declared} is declared")
        for name in node.outputs:
            if name in known:
                raise GraphError(f"{name} is defined twice, again by {node!r}")
            known.add(name)

    def view(self) -> GraphView:
        """The graph as plain data, with names in place of operators. It must be concrete."""
        return GraphView(
            tuple(ValueView(v.name, v.type.dtype.text, v.type.sizes) for v in self.values.values()),
            tuple(NodeView(n.op.name, n.inputs, n.outputs, n.op.to_json()) for n in self.nodes),
            tuple(self.inputs),
            tuple(self.weights),
            tuple(self.outputs),
            dict(self.prescribed),
        )

    @classmethod
    def of(cls, view: GraphView, lookup: SpecByName) -> Graph:
        """Inverse of `view`. lookup: finds an operator class by name (`OpRegistry.get`).

        Raises: KeyError from `lookup`.
        """
        return cls(
            {
                v.name: Value(v.name, TensorType(DType(v.dtype), view.shapes[v.name]))
                for v in view.values
            },
            [Node(lookup(n.op).from_json(n.attributes), n.inputs, n.outputs) for n in view.nodes],
            list(view.inputs),
            list(view.weights),
            list(view.outputs),
            dict(view.prescribed),
        )

    def to_json(self) -> JsonObject:
        """Plain dicts, lists, strings and numbers. The graph must be concrete."""
        return self.view().to_json()

    @classmethod
    def from_json(cls, data: Mapping[str, Json], lookup: SpecByName) -> Graph:
        """Inverse of `to_json`. Raises: GraphError for an unknown schema; KeyError as `of`."""
        return cls.of(GraphView.from_json(data), lookup)


def pruned(
    values: Mapping[str, Value],
    nodes: Iterable[Node],
    inputs: Iterable[str],
    weights: Iterable[str],
    outputs: Iterable[str],
) -> Graph:
    """The part of a graph that the outputs depend on."""
    outputs = list(dict.fromkeys(outputs))
    needed, kept = set(outputs), []
    for node in reversed(list(nodes)):
        if any(name in needed for name in node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    kept.reverse()
    inputs, weights = ([n for n in names if n in needed] for names in (inputs, weights))
    defined = [*inputs, *weights, *(name for node in kept for name in node.outputs)]
    return Graph({n: values[n] for n in defined}, kept, inputs, weights, outputs)
