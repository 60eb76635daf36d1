"""Whether an instance of a spec means the same as a node of a foreign model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from nnfuzz.ir.graph import Node
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import Emitter
from nnfuzz.materialize.static import Source
from nnfuzz.spec.operator import OpSpec

RUNS = 2
DEAREST = 1 << 20
"""Operations of the largest node that onnx.reference is made to run."""
IMPLIED = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
"""What the standard has for every axis if an attribute without a default is left out."""


def means(op: OpSpec, inputs: Sequence[str], source: Source, node: onnx.NodeProto) -> bool:
    """Whether the instance's lowering is the node, or gives the same bits on random inputs."""
    takes = {name: source.types[name] for name in inputs}
    lowered = _lowering(op, inputs, source, node)
    if _same(lowered, node, source):
        return True
    return op.cost(*takes.values()) <= DEAREST and _agree(lowered, takes, source, node)


def defaults(node: onnx.NodeProto, opset: int) -> dict[str, Any]:
    """The attributes of a node, with the values of those that are left out."""
    schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset)
    values = {name: a.default_value for name, a in schema.attributes.items()}
    values = {name: value for name, value in values.items() if value.type}
    values.update((a.name, a) for a in node.attribute)
    return {name: onnx.helper.get_attribute_value(value) for name, value in values.items()}


def _same(lowered: onnx.GraphProto, node: onnx.NodeProto, source: Source) -> bool:
    """Whether the lowering is one node, with the same attributes and inputs."""
    if len(lowered.node) != 1 or lowered.node[0].op_type != node.op_type:
        return False
    own = {t.name: onnx.numpy_helper.to_array(t) for t in lowered.initializer}
    mine, theirs = list(lowered.node[0].input), list(node.input)
    if len(mine) != len(theirs):
        return False
    for ours, name in zip(mine, theirs):
        constant = source.constants.get(name)
        equal = ours in own and constant is not None and _equal(own[ours], constant)
        if ours != name and not equal:
            return False
    have, want = (defaults(n, source.opset) for n in (lowered.node[0], node))
    if want.keys() - have.keys():
        return False
    given = all(_equal(have[name], want[name]) for name in want)
    return given and all(_implied(n, have[n]) for n in have.keys() - want.keys())


def _implied(name: str, value: Any) -> bool:
    """Whether an attribute has the value that the standard implies when it is left out."""
    return isinstance(value, list) and value == [IMPLIED.get(name)] * len(value)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=False)
    return type(one) is type(other) and one == other


def _agree(
    lowered: onnx.GraphProto, takes: Mapping[str, TensorType], source: Source, node: onnx.NodeProto
) -> bool:
    """Whether lowering and node, run by onnx.reference, have equal results."""
    from onnx.reference import ReferenceEvaluator

    constants = [protos.tensor(n, source.constants[n]) for n in node.input if n in source.constants]
    own = {n: source.constants[n] for n in takes if n in source.constants}
    original = onnx.GraphProto(name="node", node=[node], initializer=constants)
    original.input.extend(protos.declarations(takes, [n for n in takes if n not in own]))
    original.output.extend(protos.declarations(source.types, node.output))
    runs = [ReferenceEvaluator(protos.model(g, source.opset)) for g in (lowered, original)]
    for fed in _samples(takes):
        with np.errstate(all="ignore"):
            theirs = runs[1].run(None, {n: a for n, a in fed.items() if n not in own})
            ours = runs[0].run(None, {**fed, **own})
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ours, theirs, strict=True)):
            return False
    return True


def _lowering(
    op: OpSpec, inputs: Sequence[str], source: Source, node: onnx.NodeProto
) -> onnx.GraphProto:
    emit = Emitter(source.opset, source.types)
    emit.lower(Node(op, tuple(inputs), tuple(node.output)))
    graph = onnx.GraphProto(name="node", node=emit.nodes, initializer=emit.initializers)
    graph.input.extend(protos.declarations(source.types, inputs))
    graph.output.extend(protos.declarations(source.types, node.output))
    return graph


def _samples(takes: Mapping[str, TensorType]) -> Iterator[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    for _ in range(RUNS):
        fed = {}
        for name, type_ in takes.items():
            shape, floating = type_.sizes, type_.dtype.is_float
            drawn = rng.uniform(-1, 1, shape) if floating else rng.integers(0, 2, shape)
            fed[name] = np.asarray(drawn).astype(type_.dtype.numpy)
        yield fed
