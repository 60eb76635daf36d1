"""A concrete graph as plain data, for packages that do not load PyTorch.

Operators are names, and attributes are JSON values. `to_json` gives the stored format.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nnfuzz.base.reading import Json, JsonObject, Unreadable, read
from nnfuzz.ir.dtypes import DType

SCHEMA = 1


class GraphError(ValueError):
    """A graph that breaks an invariant; the message names the faulty node or value."""


class SchemaError(GraphError, Unreadable):
    """A graph in an unknown format, for instance of another version of nnfuzz."""


MAX_BYTES = 1 << 30
"""Most bytes of a graph's values in float64: four times a worker's default memory growth."""


@dataclass(frozen=True)
class ValueView:
    """A tensor. A dimension that is a string is symbolic or unknown."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class NodeView:
    """A node: the operator named `op` computes `outputs` from `inputs`."""

    op: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: Mapping[str, Json] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class GraphView:
    """A graph as plain data; the fields are those of nnfuzz.ir.graph.Graph.

    A view without nodes is falsy.
    """

    values: tuple[ValueView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    inputs: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    prescribed: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)
    schema: int = SCHEMA

    def __bool__(self) -> bool:
        return bool(self.nodes)

    @cached_property
    def dtypes(self) -> dict[str, str]:
        """The dtype of each value."""
        return {value.name: value.dtype for value in self.values}

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each value."""
        return {v.name: tuple(map(int, v.shape)) for v in self.values}

    @cached_property
    def makers(self) -> dict[str, NodeView]:
        """The node that computes each value, except for inputs and weights."""
        return {name: node for node in self.nodes for name in node.outputs}

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """The names of the operators in order, each once."""
        return tuple(dict.fromkeys(node.op for node in self.nodes))

    def to_json(self) -> JsonObject:
        """Plain dicts, lists, strings and numbers."""
        ranges = {name: list(range_) for name, range_ in self.prescribed.items()}
        return {
            "schema": self.schema,
            "values": [[v.name, v.dtype, list(v.shape)] for v in self.values],
            "nodes": [
                {
                    "op": n.op,
                    "attributes": dict(n.attributes),
                    "inputs": list(n.inputs),
                    "outputs": list(n.outputs),
                }
                for n in self.nodes
            ],
            "inputs": list(self.inputs),
            "weights": list(self.weights),
            "outputs": list(self.outputs),
            **({"prescribed": ranges} if ranges else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> GraphView:
        """The inverse of `to_json`. Raises: SchemaError, Unreadable."""
        return read(cls, data)._of_this_schema()

    def checked(self) -> GraphView:
        """The graph, if it is valid. Raises: Unreadable if a name has no value, a dtype or
        dimension is invalid, or the values do not fit into memory."""
        self._of_this_schema()
        known = {value.name for value in self.values}
        used = [*self.inputs, *self.weights, *self.outputs, *self.prescribed]
        used += [name for node in self.nodes for name in (*node.inputs, *node.outputs)]
        if unknown := set(used) - known:
            raise Unreadable(f"the graph has no value {min(unknown)!r}")
        if strange := {value.dtype for value in self.values} - _DTYPES:
            raise Unreadable(f"{min(strange)!r} is no dtype")
        try:
            shapes = list(self.shapes.values())
        except ValueError as error:
            raise Unreadable(f"a dimension of the graph is no number: {error}") from error
        if any(min(shape, default=0) < 0 for shape in shapes):
            raise Unreadable("a dimension of the graph is negative")
        if sum(8 * math.prod(shape) for shape in shapes) > MAX_BYTES:
            raise Unreadable(f"the graph has values of more than {MAX_BYTES:,} bytes in float64")
        return self

    def _of_this_schema(self) -> GraphView:
        if self.schema != SCHEMA:
            raise SchemaError(f"graph schema {self.schema!r} is not {SCHEMA}")
        return self


_DTYPES = frozenset(dtype.value for dtype in DType)
NO_GRAPH = GraphView()
