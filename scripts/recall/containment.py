"""A small model as a pattern, and whether another model contains it.

Both sides are read as `Facts`. A pattern is compared by ingredients, each of which can be left out:
what the values between nodes are (INGREDIENTS), so that it shows which of them a model lacks.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import defs, external_data_helper, helper, numpy_helper, shape_inference

INGREDIENTS = (
    *("joined", "attributes", "constants", "defaults", "values"),
    *("outputs", "readers", "dtypes", "ranks", "inputs"),
)
"""joined: results and inputs are read by the operators that read them in the pattern; inputs and
constants may be missing. attributes: equal ones.
constants: what is constant in the pattern, and nothing else. defaults: inputs that have an
initializer. values: constants of zeros or of ones. outputs: results that the model returns.
readers: how many there are of each result. dtypes, ranks: of all values. inputs: NaN, infinities,
zeros among integers, and no elements at all, in the model's inputs.
"""
MOST_PERMUTED = 5
"""The most inputs of a node all orders of which are tried."""
NO_ARRAYS: Mapping[str, np.ndarray] = MappingProxyType({})


@dataclass(frozen=True)
class Value:
    """A tensor of a model. dtype, rank: -1 if unknown. uniform: of a constant all of whose elements
    are 0 or 1, that number. special: what a given input has of nan, infinity, zero and empty.
    """

    constant: bool = False
    default: bool = False
    output: bool = False
    readers: int = 0
    dtype: int = -1
    rank: int = -1
    uniform: float | None = None
    special: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Node:
    """An operator with its attributes, those included that ONNX sets where a model does not."""

    operator: str
    attributes: Mapping[str, Any]
    inputs: Sequence[str]
    outputs: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """The nodes of a model, without Constants, and its values by name."""

    nodes: Sequence[Node]
    values: Mapping[str, Value]

    @property
    def operators(self) -> Counter[str]:
        """How often each operator occurs."""
        return Counter(node.operator for node in self.nodes)


def facts(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray] = NO_ARRAYS) -> Facts:
    """Reads a model; inputs: the arrays that it is run with, as far as they are known."""
    graph = shape_inference.infer_shapes(model).graph
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    stored = [t for t in graph.initializer if not external_data_helper.uses_external_data(t)]
    constants = [node for node in graph.node if node.op_type == "Constant"]
    nodes = [_node(node, opset) for node in graph.node if node.op_type != "Constant"]
    free = {v.name for v in graph.input}
    values = {name: Value() for node in nodes for name in (*node.inputs, *node.outputs)}
    for name in (*(t.name for t in graph.initializer), *(c.output[0] for c in constants)):
        values[name] = Value(constant=name not in free, default=name in free)
    for t in stored:
        values[t.name] = replace(values[t.name], uniform=_uniform(numpy_helper.to_array(t)))
    for name, array in inputs.items():
        values[name] = replace(values.get(name, Value()), special=_special(array))
    readers = Counter(name for node in nodes for name in {*node.inputs})
    outputs = {v.name for v in graph.output}
    for name, own in values.items():
        values[name] = replace(own, readers=readers[name], output=name in outputs)
    typed = {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info, *graph.output)}
    for name in typed.keys() & values.keys():
        kind = typed[name]
        rank = len(kind.shape.dim) if kind.HasField("shape") else -1
        values[name] = replace(values[name], dtype=kind.elem_type, rank=rank)
    for t in graph.initializer:
        values[t.name] = replace(values[t.name], dtype=t.data_type, rank=len(t.dims))
    return Facts(nodes, values)


def contains(model: Facts, pattern: Facts, ingredients: Collection[str] = INGREDIENTS) -> bool:
    """Whether the nodes of the pattern can be mapped to nodes of the model, none to the same, with
    these of INGREDIENTS alike. With "joined" alone, inputs may have any order.
    """
    if pattern.operators - model.operators:
        return False
    return next(_mappings(model, pattern, frozenset(ingredients), 0, {}, frozenset()), False)


def _mappings(
    model: Facts,
    pattern: Facts,
    wanted: frozenset[str],
    place: int,
    names: Mapping[str, str],
    taken: frozenset[int],
) -> Iterator[bool]:
    if place == len(pattern.nodes):
        yield True
        return
    node = pattern.nodes[place]
    for number, other in enumerate(model.nodes):
        if number in taken or node.operator != other.operator:
            continue
        for order in _orders(node, other, wanted):
            candidate = replace(other, inputs=order)
            found = _matched(model, pattern, node, candidate, wanted, names)
            if found is not None:
                yield from _mappings(model, pattern, wanted, place + 1, found, taken | {number})


def _matched(
    model: Facts,
    pattern: Facts,
    node: Node,
    other: Node,
    wanted: frozenset[str],
    names: Mapping[str, str],
) -> Mapping[str, str] | None:
    """The names of a pattern's values with those of a further node; None if that does not fit."""
    if "attributes" in wanted and node.attributes != other.attributes:
        return None
    made = {name for own in pattern.nodes for name in own.outputs}
    pairs = [*zip(node.inputs, other.inputs), *zip(node.outputs, other.outputs)]
    for mine, theirs in pairs:
        own = pattern.values[mine] if mine else Value()
        if not own.constant and "joined" in wanted and names.get(mine, theirs) != theirs:
            return None
        if mine and not theirs and wanted and (mine in made or wanted - {"joined"}):
            return None
        if mine and theirs and not _alike(own, model.values[theirs], mine in made, wanted):
            return None
    return {**names, **dict(pairs)}


def _alike(mine: Value, theirs: Value, made: bool, wanted: frozenset[str]) -> bool:
    """made: whether a node of the pattern makes the value."""
    checks = {
        "constants": made or mine.constant == theirs.constant or mine.default,
        "defaults": made or not mine.default or theirs.default,
        "values": made or mine.uniform is None or mine.uniform == theirs.uniform,
        "outputs": not made or not mine.readers or mine.output == theirs.output,
        "readers": not made or not mine.readers or mine.readers == theirs.readers,
        "dtypes": mine.dtype == theirs.dtype,
        "ranks": mine.rank == theirs.rank,
        "inputs": mine.special <= theirs.special,
    }
    return all(holds for name, holds in checks.items() if name in wanted)


def _orders(node: Node, other: Node, wanted: frozenset[str]) -> Iterable[Sequence[str]]:
    """The orders of a node's inputs in which they may be those of the pattern's node; any order
    where only the joints count."""
    inputs = [*other.inputs, *[""] * (len(node.inputs) - len(other.inputs))]
    if wanted == {"joined"} and len(inputs) <= MOST_PERMUTED:
        return itertools.permutations(inputs)
    commutes = node.operator in ("Add", "Mul", "Max", "Min") and len(inputs) == 2
    return (inputs, inputs[::-1])[: 1 + commutes]


def _node(node: onnx.NodeProto, opset: int) -> Node:
    found: dict[str, Any] = {}
    try:
        schema = defs.get_schema(node.op_type, opset, node.domain)
        usual = (a.default_value for a in schema.attributes.values())
        found = {a.name: helper.get_attribute_value(a) for a in usual if a.name}
    except defs.SchemaError:
        pass
    found |= {a.name: helper.get_attribute_value(a) for a in node.attribute if a.type != a.GRAPH}
    return Node(node.op_type, found, list(node.input), list(node.output))


def _uniform(array: np.ndarray) -> float | None:
    if not array.size or array.dtype.kind not in "iuf":
        return None
    number = float(array.flat[0])
    return number if number in (0.0, 1.0) and bool((array == array.flat[0]).all()) else None


def _special(array: np.ndarray) -> frozenset[str]:
    floats = array.dtype.kind == "f"
    present = {
        "empty": array.size == 0,
        "nan": floats and bool(np.isnan(array).any()),
        "infinity": floats and bool(np.isinf(array).any()),
        "zero": array.dtype.kind in "iu" and bool((array == 0).any()),
    }
    return frozenset(name for name, holds in present.items() if holds)
