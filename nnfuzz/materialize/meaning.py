"""Decides whether an instance of a spec is equivalent to nodes of an ONNX model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from nnfuzz.ir.graph import Node
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import Emitter
from nnfuzz.materialize.protos import typed
from nnfuzz.materialize.regions import NodeGroup
from nnfuzz.materialize.static import StaticModel
from nnfuzz.materialize.walk import qualified_name
from nnfuzz.operators.operator import OpSpec

Schema = onnx.defs.OpSchema | None
RUNS = 2
OTHER = 1000.0
"""Difference between a lowering and nodes with other operators."""
COSTLIEST = 1 << 20
"""Most arithmetic operations of a node that onnx.reference is made to run."""
IMPLIED = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
"""The value that the ONNX standard implies, for every axis, if the attribute is left out."""


@dataclass(frozen=True)
class Lowered:
    """The ONNX graph that an instance lowers to. outputs: the names of its outputs, in order."""

    graph: onnx.GraphProto
    outputs: tuple[str, ...]

    def names(self, group: NodeGroup) -> list[str]:
        """For each output of the instance, the model's name; "" if the model leaves it out.

        Outputs correspond by position in the nodes if both have equally many nodes, else in order.
        """
        if len(self.graph.node) != len(group.nodes):
            given = list(group.results)
            return given + [""] * (len(self.outputs) - len(given))
        pairs = zip(self.graph.node, group.nodes)
        made = {ours: name for one, other in pairs for ours, name in zip(one.output, other.output)}
        return [made.get(name, "") for name in self.outputs]


def lowering(op: OpSpec, inputs: Sequence[str], source: StaticModel) -> Lowered:
    """The lowering of an instance that reads these values. Raises: any exception of `op.onnx`."""
    gives = op.type_transfer(*(source.types[n] for n in inputs))
    outputs = tuple(f"result_{i}" for i in range(len(gives)))
    emit = Emitter(source.opset, source.types)
    emit.lower(Node(op, tuple(inputs), outputs))
    graph = onnx.GraphProto(name="node", node=emit.nodes, initializer=emit.initializers)
    graph.input.extend(protos.declarations(source.types, inputs))
    graph.output.extend(map(protos.value_info, outputs, gives))
    return Lowered(graph, outputs)


def means(op: OpSpec, inputs: Sequence[str], source: StaticModel, group: NodeGroup) -> bool:
    """Whether the instance's lowering equals these nodes or, if there is one node, gives the same
    bits on random inputs."""
    takes = {name: source.types[name] for name in inputs}
    lowered = lowering(op, inputs, source)
    if difference(lowered.graph, group, source, op.schema) == 0:
        return True
    if len(group.nodes) > 1 or op.cost(*takes.values()) > COSTLIEST:
        return False
    return _agree(lowered, takes, source, group)


def defaults(node: onnx.NodeProto, opset: int, other: Schema = None) -> dict[str, Any]:
    """The attributes of a node, including the defaults of those that it leaves out. other: as in
    schema_of."""
    schema = protos.schema_of(node, opset, other)
    values = {name: a.default_value for name, a in schema.attributes.items()}
    values = {name: value for name, value in values.items() if value.type}
    values.update((a.name, a) for a in node.attribute)
    return {name: onnx.helper.get_attribute_value(value) for name, value in values.items()}


def difference(
    lowered: onnx.GraphProto, group: NodeGroup, source: StaticModel, other: Schema = None
) -> float:
    """How much a lowering differs from nodes; 0 if it is the same nodes in the same order. other:
    as in schema_of."""
    if [*map(qualified_name, lowered.node)] != [*map(qualified_name, group.nodes)]:
        return OTHER + len(lowered.node)
    own = {t.name: onnx.numpy_helper.to_array(t) for t in lowered.initializer}
    names: dict[str, str] = {}
    found = 0.0
    for mine, theirs in zip(lowered.node, group.nodes):
        found += 2.0 * abs(len(mine.input) - len(theirs.input))
        for ours, name in zip(mine.input, theirs.input):
            if names.get(ours, ours) != name:
                constant = source.constants.get(name)
                found += _difference(own[ours], constant) if ours in own else 2.0
        have, want = (defaults(n, source.opset, other) for n in (mine, theirs))
        found += _attribute_difference(have, want, other is not None)
        names.update(zip(mine.output, theirs.output))
    return found


def _attribute_difference(have: Mapping[str, Any], want: Mapping[str, Any], zeros: bool) -> float:
    """zeros: whether an integer that is left out is 0, as for the kernels of com.microsoft."""
    alone = {n: v for n, v in (*have.items(), *want.items()) if n not in have or n not in want}
    found = sum(not (_implied(n, v) or (zeros and _equal(v, 0))) for n, v in alone.items())
    return found + sum(not _equal(have[n], want[n]) for n in want if n in have)


def _difference(one: np.ndarray, other: np.ndarray | None) -> float:
    """0 for equal constants; otherwise the share of differing elements, or 2 for other types."""
    if other is None or one.dtype != other.dtype or one.shape != other.shape:
        return 2.0
    return 0.0 if _equal(one, other) else float((one != other).mean()) or 1.0


def _implied(name: str, value: Any) -> bool:
    """Whether an attribute has the value that the standard implies if it is left out: that of the
    weights' shape for `kernel_shape`, which pools may not leave out."""
    known = isinstance(value, list) and value == [IMPLIED.get(name)] * len(value)
    return known or name == "kernel_shape"


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=False)
    return type(one) is type(other) and one == other


def _agree(
    lowered: Lowered, takes: Mapping[str, TensorType], source: StaticModel, group: NodeGroup
) -> bool:
    """Whether onnx.reference gives equal results for the lowering and the group's only node, on
    random inputs. takes: types of the inputs by name."""
    from onnx.reference import ReferenceEvaluator

    (node,) = group.nodes
    constants = [
        protos.constant_proto(n, source.constants[n]) for n in node.input if n in source.constants
    ]
    own = {n: source.constants[n] for n in takes if n in source.constants}
    original = onnx.GraphProto(name="node", node=[node], initializer=constants)
    original.input.extend(protos.declarations(takes, [n for n in takes if n not in own]))
    given = [(at, name) for at, name in enumerate(lowered.names(group)) if name]
    original.output.extend(protos.declarations(source.types, [name for _, name in given]))
    graphs = (lowered.graph, original)
    runs = [ReferenceEvaluator(typed(protos.model(g, source.opset))) for g in graphs]
    for trial, fed in enumerate(_samples(takes, [*lowered.graph.node, node])):
        with np.errstate(all="ignore"):
            try:
                theirs = runs[1].run(None, {n: a for n, a in fed.items() if n not in own})
            except Exception:
                if trial < RUNS:
                    raise
                break  # a number of an attribute may be no valid input
            made: Any = runs[0].run(None, {**fed, **own})
        ours = [made[position] for position, _ in given]
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ours, theirs, strict=True)):
            return False
    return True


def _samples(
    takes: Mapping[str, TensorType], nodes: Sequence[onnx.NodeProto]
) -> Iterator[dict[str, np.ndarray]]:
    """Random inputs; at last, of the numbers in the nodes' attributes, on which they may decide."""
    rng = np.random.default_rng(0)
    values = (onnx.helper.get_attribute_value(a) for node in nodes for a in node.attribute)
    numbers = [n for v in values for n in np.ravel(v) if isinstance(n, (np.integer, np.floating))]
    for trial in range(RUNS + bool(numbers)):
        fed = {}
        for name, type_ in takes.items():
            shape, floating = type_.sizes, type_.dtype.is_float
            drawn = rng.uniform(-1, 1, shape) if floating else rng.integers(0, 2, shape)
            if trial == RUNS:
                drawn = rng.choice(numbers, shape)
            with np.errstate(all="ignore"):
                fed[name] = np.asarray(drawn).astype(type_.dtype.numpy)
        yield fed
