"""The test case under reduction, as the passes see it: a concrete graph and its parameters."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nnfuzz.inputs.program import Program, index_ranges, within_ranges
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, GraphError, Node, Value, pruned
from nnfuzz.ir.sizes import (
    at_size,
    by_copy,
    copies,
    join_copies,
    name_and_copy,
    with_renamed_values,
)
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.module import execute
from nnfuzz.materialize.opsets import is_called, once
from nnfuzz.operators.attributes import Attribute, Choice
from nnfuzz.operators.body import Body
from nnfuzz.operators.carriers import array, tensor
from nnfuzz.operators.operator import OpSpec

if TYPE_CHECKING:
    from torch import Tensor


SIZES = frozenset({"shape", "split", "ends", "kernel_shape", "hidden_size"})
"""Attributes that follow from shapes: small where these are small."""
ONES = frozenset({"strides", "dilations", "group", "repeats", "steps", "alpha", "beta", "scales"})
"""Attributes whose simplest value is 1 and not 0."""
_DTYPES = {
    DType.FLOAT32: 0, DType.BOOL: 0, DType.INT64: 1, DType.INT32: 2, DType.FLOAT64: 1,
    DType.FLOAT16: 2, DType.INT8: 3, DType.UINT8: 3, DType.INT16: 4, DType.BFLOAT16: 3,
    DType.UINT64: 5, DType.UINT32: 5, DType.UINT16: 5, DType.INT4: 6, DType.UINT4: 6,
    DType.FLOAT8_E4M3FN: 6, DType.FLOAT8_E5M2: 6, DType.FLOAT8_E4M3FNUZ: 7,
    DType.FLOAT8_E5M2FNUZ: 7,
}  # fmt: skip


def dtype_cost(dtype: DType) -> int:
    return _DTYPES[dtype]


def attribute_cost(op: OpSpec) -> int:
    """Over all attributes; 0 where each has its simplest value."""
    return sum(
        value_cost(name, value, declaration(op, name))
        for name, value in op.attributes.items()
        if name not in SIZES
    )


def declaration(op: OpSpec, name: str) -> Attribute:
    """How an attribute is declared; where the modes to choose from depend on attributes before it,
    as it would be with those of this operator.
    """
    declared = op.declared[name]
    options = getattr(declared, "options", None)
    if not callable(options) or not isinstance(op.attributes[name], str):
        return declared
    try:
        return Choice(tuple(options(op)))
    except TypeError:  # they depend on the types of inputs
        return declared


def value_cost(name: str, value: Any, declared: object = None) -> int:
    """Of one attribute."""
    if isinstance(value, Body):
        return sum(3 + attribute_cost(step.op) for step in value.steps)
    if isinstance(value, tuple):
        if name == "perm":
            return sum(i != p for i, p in enumerate(value))
        return sum(1 if isinstance(v, str) else value_cost(name, v) for v in value)
    if isinstance(value, DType):
        return dtype_cost(value)
    if isinstance(value, str):
        options = getattr(declared, "options", None)
        return options.index(value) if isinstance(options, tuple) and value in options else 0
    best = 1 if name in ONES else 0
    if value is None or value == best:
        return 0
    return (
        (1 if float(value).is_integer() else 4) + (2 if value < 0 else 0) + min(int(abs(value)), 9)
    )


def array_cost(array: np.ndarray) -> int:
    """The sum over the elements: 0, 1, a digit, an integer, few decimals, anything else."""
    if array.dtype == bool:
        return int(np.count_nonzero(array))
    array = array.astype(np.float64)
    wide = np.abs(array)
    cost = np.full(wide.shape, 8)
    with np.errstate(invalid="ignore", over="ignore"):
        cost[np.abs(wide * 10 - np.round(wide * 10)) < 1e-3] = 5
    whole = wide == np.round(wide)
    cost[whole] = 4
    cost[whole & (wide < 10)] = 3
    cost[wide == 1] = 1
    cost[wide == 0] = 0
    return int(cost.sum()) + int(np.count_nonzero(np.signbit(array)))


Measure = tuple[int, ...]
REWRITES = "+"
"""Stands in front of every rewrite in the name of a form, see nnfuzz.vary.rewrite.rewriting."""


class Inapplicable(ValueError):
    """An edit that does not fit the test case, or makes an invalid one."""


@dataclass(frozen=True, eq=False)
class Subject:
    """params: inputs and weights by name, in the dtypes of the graph. edges: whether values may be
    NaN and infinite, as in the tests of a campaign at edges. opset: of the model. newest: the
    newest opset that it may be written for; 0 where the opset is to stay.
    """

    graph: Graph
    params: Mapping[str, np.ndarray]
    exporter: str = "direct"
    edges: bool = False
    opset: int = 0
    newest: int = 0

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """Every value by name, as native PyTorch computes it.

        Raises: Inapplicable where an index is outside of its range and, but for edges, where a
        value is not finite or an operator is outside of its domain.
        """
        ranges = index_ranges(self.graph)
        names = (*self.graph.inputs, *self.graph.weights)
        tensors = {name: tensor(self.params[name]) for name in names}
        _check_indices(tensors, ranges)
        try:
            violation = Program(self.graph).run(tensors)
            if violation is not None and self.edges:
                tensors, violation = execute(self.graph, tensors), None
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
            # An attribute that was never drawn may be beyond what PyTorch implements.
            raise Inapplicable(f"PyTorch refuses: {error}") from error
        if violation is not None:
            node = self.graph.nodes[violation.position]
            raise Inapplicable(f"{node!r}: {violation.cause.value}")
        _check_indices(tensors, ranges)
        return {name: array(x, self.graph.type(name).dtype) for name, x in tensors.items()}

    def measure(self) -> Measure:
        """What reduction lowers, the most important part first; compared as tuples."""
        graph = self.graph
        types = [value.type for value in graph.values.values()]
        arrays = [self.params[name] for name in (*graph.inputs, *graph.weights)]
        return (
            sum(1 + steps_inside(node.op) for node in graph.nodes),
            len(graph.outputs),
            len(arrays),
            sum(len(node.inputs) for node in graph.nodes),
            sum(len(node.op.attributes) + attribute_cost(node.op) for node in graph.nodes),
            sum(dtype_cost(t.dtype) for t in types),
            sum(t.elements for t in types),
            sum(t.rank for t in types),
            len(graph.weights),
            # steps away from a model that nnfuzz itself writes and that is called once
            len({self.exporter, once(self.exporter), "direct"}) - 1 + self.exporter.count(REWRITES),
            sum(array_cost(array) for array in arrays),
            max(self.newest - self.opset, 0),
        )

    def digest(self) -> str:
        """A hash of everything that decides what the backend sees."""
        state = hashlib.sha256(
            json.dumps([self.exporter, self.opset, self.graph.to_json()]).encode()
        )
        for name in (*self.graph.inputs, *self.graph.weights):
            state.update(np.ascontiguousarray(self.params[name]).tobytes())
        return state.hexdigest()

    def checked(self) -> Subject:
        """Itself, verified and valid. Raises: Inapplicable."""
        if not self.graph.nodes or not self.graph.outputs:
            raise Inapplicable("nothing is left")
        try:
            self.graph.verify()
        except ValueError as error:
            raise Inapplicable(str(error)) from error
        _ = self.values
        return self

    def node(self, name: str) -> Node:
        """The node that edits know by a name, see node_id. Raises: Inapplicable if it is gone."""
        for node in self.graph.nodes:
            if node_id(node) == name:
                return node
        raise Inapplicable(f"the node {name} is gone")


def steps_inside(op: OpSpec) -> int:
    """Operators inside of the bodies that an operator holds."""
    bodies = [value for value in op.attributes.values() if isinstance(value, Body)]
    return sum(1 + steps_inside(step.op) for body in bodies for step in body.steps)


def node_id(node: Node) -> str:
    """The name by which edits refer to a node: its first output."""
    return node.outputs[0]


def restricted(subject: Subject, graph: Graph, params: Mapping[str, np.ndarray]) -> Subject:
    """The subject with another graph and just the parameters that it names.

    Zeros among new ones, which may be values of the whole, have no sign unless it is at edges: the
    sign is asked for where an input has one (nnfuzz.backend.numeric.beyond).
    """
    if not subject.edges:
        params = {n: np.where(x == 0, np.zeros_like(x), x) for n, x in params.items()}
    merged = {**subject.params, **params}
    return replace(
        subject, graph=graph, params={n: merged[n] for n in (*graph.inputs, *graph.weights)}
    )


Adapt = Callable[[OpSpec, list[TensorType], list[TensorType]], Iterable[OpSpec]]
"""(operator, its old input types, its new ones) -> operators to try, the best first."""


def rebuilt(
    graph: Graph,
    types: Mapping[str, TensorType],
    adapt: Adapt = lambda op, old, new: (op,),
    rename: Mapping[str, str] | None = None,
    drop: Iterable[str] = (),
) -> Graph:
    """The graph with other types of parameters, and all types after them inferred anew.

    types: of parameters that change. rename: values that are read instead of others. drop: ids of
    nodes to leave out. Raises: Inapplicable where no operator that `adapt` offers fits.
    """
    rename, drop = dict(rename or {}), set(drop)
    values = {n: Value(n, types.get(n, graph.type(n))) for n in (*graph.inputs, *graph.weights)}
    nodes = []
    for node in graph.nodes:
        if node_id(node) in drop:
            continue
        inputs = tuple(rename.get(name, name) for name in node.inputs)
        new = [values[name].type for name in inputs]
        op, outputs = _fitting(node, adapt(node.op, graph.types(node.inputs), new), new)
        values.update((name, Value(name, t)) for name, t in zip(node.outputs, outputs, strict=True))
        nodes.append(Node(op, inputs, node.outputs))
    kept = [rename.get(name, name) for name in graph.outputs]
    return pruned(values, nodes, graph.inputs, graph.weights, kept)


def _fitting(
    node: Node, ops: Iterable[OpSpec], types: list[TensorType]
) -> tuple[OpSpec, list[TensorType]]:
    for op in ops:
        try:
            op.check(*types)
            outputs = op.type_transfer(*types)
        except Exception:  # specs may index shapes of a rank that they do not know
            continue
        sizes = [t.elements for t in outputs]
        if len(outputs) == len(node.outputs) and all(0 < size < 1 << 22 for size in sizes):
            return op, outputs
    raise Inapplicable(f"{node!r} does not admit {types}")


def _check_indices(
    tensors: Mapping[str, Tensor], ranges: Mapping[str, tuple[float, float]]
) -> None:
    """Raises: Inapplicable if indices among the tensors are outside of their ranges."""
    for name in tensors.keys() & ranges.keys():
        if not within_ranges([tensors[name]], [ranges[name]]):
            raise Inapplicable(f"the indices {name} are out of range")


def fitted(array: np.ndarray, type_: TensorType, starts: Iterable[int]) -> np.ndarray:
    """An array cut to a type of the same rank at most as large, from a first index per axis."""
    index = tuple(slice(s, s + d) for s, d in zip(starts, type_.shape, strict=True))
    return np.ascontiguousarray(array[index]).astype(type_.dtype.numpy).reshape(type_.sizes)


def clipped(graph: Graph, params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The parameters with indices moved into their ranges."""
    clipped_params = dict(params)
    for name, (lo, hi) in index_ranges(graph).items():
        if name in clipped_params:
            lo, hi = math.ceil(lo), math.floor(hi)
            clipped_params[name] = np.clip(clipped_params[name], lo, hi).astype(
                clipped_params[name].dtype
            )
    return clipped_params


def at_each_size(subject: Subject) -> list[Subject]:
    """One subject for each call, with the names of the first; the subject itself if there is only
    one call.
    """
    if not is_called(subject.exporter):
        return [subject]
    weights = {name: subject.params[name] for name in subject.graph.weights}
    inputs = by_copy({name: subject.params[name] for name in subject.graph.inputs})
    parts = zip(copies(subject.graph), inputs, strict=True)
    return [replace(subject, graph=g, params={**weights, **params}) for g, params in parts]


def edited(subject: Subject, edit: Callable[[Subject], Subject]) -> Subject:
    """The subject after an edit of each call.

    Raises: Inapplicable as the edit does, or where the calls need different weights afterwards.
    """
    parts = at_each_size(subject)
    if len(parts) == 1:
        return edit(subject)
    return _rejoined([edit(part) for part in parts])


def _rejoined(parts: Sequence[Subject]) -> Subject:
    first = parts[0]
    params: dict[str, np.ndarray] = {}
    for k, part in enumerate(parts):
        params.update({at_size(name, k): part.params[name] for name in part.graph.inputs})
        for name in part.graph.weights:
            if name not in first.params or not np.array_equal(
                part.params[name], first.params[name]
            ):
                raise Inapplicable(f"the weight {name} depends on the size")
            params[name] = part.params[name]
    try:
        whole = join_copies([part.graph for part in parts])
        return replace(first, graph=whole, params=params)
    except GraphError as error:
        raise Inapplicable(str(error)) from error


def of_calls(subject: Subject, kept: Sequence[int]) -> Subject:
    """The subject with some of its calls, by number. Raises: Inapplicable if one does not exist."""
    parts = at_each_size(subject)
    if len(parts) == 1 or max(kept) >= len(parts):
        raise Inapplicable("a call is gone")
    if len(kept) == 1:
        return replace(parts[kept[0]], exporter=once(subject.exporter))
    return _rejoined([parts[call] for call in kept])


def fixed(subject: Subject) -> Subject:
    """All copies in one model with static shapes; their names do not call them copies any more."""
    graph = subject.graph
    names = {name: _apart(name) for name in graph.values}
    values = {names[n]: Value(names[n], v.type) for n, v in graph.values.items()}
    ends = (graph.inputs, graph.weights, graph.outputs)
    inputs, weights, outputs = ([names[n] for n in ns] for ns in ends)
    nodes = [with_renamed_values(node, names) for node in graph.nodes]
    static = Graph(values, nodes, inputs, weights, outputs)
    params = {names[n]: a for n, a in subject.params.items()}
    return replace(subject, graph=static, params=params, exporter="direct")


def _apart(name: str) -> str:
    stem, copy = name_and_copy(name)
    return f"{stem}_size{copy}" if copy else name
