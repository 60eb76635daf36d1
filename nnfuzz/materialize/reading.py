"""From an ONNX model to a graph: the inverse of emission, for models that others have made.

A node whose operator has a spec becomes an instance of that spec, if the instance provably means
the same: lowered again, it yields the same node or, on random inputs, the same bits. Any other node
stays what it is, as an `Opaque` operator. Constants that shape a result become attributes, the rest
weights; a weight whose elements are all equal keeps its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from nnfuzz.ir.graph import Graph, GraphError, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import Emitter
from nnfuzz.materialize.static import ReadingError, Source, static
from nnfuzz.spec.opaque import Opaque
from nnfuzz.spec.operator import ConstraintError, OpSpec
from nnfuzz.spec.registry import OpRegistry

SMALL = 16
"""Constants of an opaque node with at most so many elements stay with it: axes, scales, shapes."""


@dataclass
class _Draft:
    """The graph so far, and the names of its values in the model and in it."""

    graph: Graph = field(default_factory=Graph)
    names: dict[str, str] = field(default_factory=dict)


def read_model(model: onnx.ModelProto, registry: OpRegistry, opset: int) -> Graph:
    """The model as a concrete graph; values are named anew. Open dimensions become UNKNOWN_SIZE.

    Raises: ReadingError, for sub-graphs that read outer values, for sequences, strings, foreign
    domains, types that shape inference cannot tell, and tensors of more than MAX_NUMEL elements.
    """
    source = static(model, opset)
    draft = _Draft()
    for info in model.graph.input:
        if info.name not in source.constants:
            draft.graph.inputs.append(_declared(draft, source, info.name, "p"))
    for node in source.nodes:
        _append(draft, source, node, registry)
    made = draft.graph.producer()
    results = dict.fromkeys(draft.names.get(o.name, "") for o in model.graph.output)
    draft.graph.outputs = [name for name in results if name in made]
    _check(draft.graph)
    return draft.graph


def opaque_nodes(graph: Graph) -> list[str]:
    """The ONNX operators of a graph that have no spec, one entry per node."""
    return [n.op.graph.node[0].op_type for n in graph.nodes if isinstance(n.op, Opaque)]


def _check(graph: Graph) -> None:
    if not graph.nodes or not graph.outputs:
        raise ReadingError("the model computes nothing from its inputs")
    try:
        graph.verify()
    except (GraphError, ConstraintError) as error:
        raise ReadingError(str(error)) from error


# -- node by node -------------------------------------------------------------------------------


def _append(draft: _Draft, source: Source, node: onnx.NodeProto, registry: OpRegistry) -> None:
    missing = [n for n in (*node.input, *node.output) if n and n not in source.types]
    if missing:
        raise ReadingError(f"the type of {missing[0]} is not known before it runs")
    op, inputs = _described(source, node, registry) or _undescribed(source, node)
    names = [_read_by(draft, source, name) for name in inputs]
    made = [_declared(draft, source, name, "v") for name in node.output]
    draft.graph.nodes.append(Node(op, tuple(names), tuple(made)))


def _read_by(draft: _Draft, source: Source, name: str) -> str:
    """The graph's name of a value; a constant becomes a weight when first read."""
    if name not in draft.names:
        weight = _declared(draft, source, name, "w")
        draft.graph.weights.append(weight)
        array = source.constants[name]
        if array.size and (array == array.flat[0]).all():
            draft.graph.prescribed[weight] = (array.flat[0].item(),) * 2
    return draft.names[name]


def _declared(draft: _Draft, source: Source, name: str, stem: str) -> str:
    fresh = f"{stem}{len(draft.names)}"
    draft.names[name] = fresh
    draft.graph.values[fresh] = Value(fresh, source.types[name])
    return fresh


def _described(
    source: Source, node: onnx.NodeProto, registry: OpRegistry
) -> tuple[OpSpec, list[str]] | None:
    """The node as an instance of a spec, with the inputs that are not attributes of it."""
    for spec in registry.specs():
        if spec.name.startswith(node.op_type) and spec.since <= source.opset:
            found = _instance(source, node, spec)
            if found is not None:
                return found
    return None


def _instance(
    source: Source, node: onnx.NodeProto, spec: type[OpSpec]
) -> tuple[OpSpec, list[str]] | None:
    fields, inputs = _fields(source, node, spec)
    if "" in inputs:
        return None
    takes = [source.types[n] for n in inputs]
    gives = [source.types[n] for n in node.output]
    try:
        op = spec.reading(fields, takes, gives)
        op.check(*takes)
        inferred = op.type_transfer(*takes)
        same = len(inferred) == len(gives) and all(a.same(b) for a, b in zip(inferred, gives))
        return (op, inputs) if same and _means(op, inputs, source, node) else None
    except Exception:
        return None


def _fields(
    source: Source, node: onnx.NodeProto, spec: type[OpSpec]
) -> tuple[dict[str, Any], list[str]]:
    """Attributes of the spec that the node sets, by attribute or by constant input; the rest."""
    schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=source.opset)
    fields = {
        name: onnx.helper.get_attribute_value(a.default_value)
        for name, a in schema.attributes.items()
        if a.default_value.type
    }
    fields.update((a.name, onnx.helper.get_attribute_value(a)) for a in node.attribute)
    fields = {name: _value(value) for name, value in fields.items()}
    inputs = []
    for i, name in enumerate(node.input):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)].name
        if formal in spec.declared and (not name or name in source.constants):
            fields[formal] = _value(source.constants[name].tolist()) if name else None
        else:
            inputs.append(name)
    for left_out in schema.inputs[len(node.input) :]:
        fields.setdefault(left_out.name, None)
    return fields, inputs


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return tuple(value) if isinstance(value, list) else value


def _undescribed(source: Source, node: onnx.NodeProto) -> tuple[OpSpec, list[str]]:
    kept = [n for n in node.input if n in source.constants and source.constants[n].size <= SMALL]
    inputs = [n for n in dict.fromkeys(node.input) if n and n not in kept]
    graph = onnx.GraphProto(name="node", node=[node])
    graph.input.extend(protos.declarations(source.types, inputs))
    graph.output.extend(protos.declarations(source.types, node.output))
    graph.initializer.extend(protos.tensor(n, source.constants[n]) for n in dict.fromkeys(kept))
    takes, gives = ([source.types[n] for n in names] for names in (inputs, node.output))
    return Opaque.of(graph, source.opset, takes, gives), inputs


# -- whether an instance means the same ---------------------------------------------------------


def _means(op: OpSpec, inputs: Sequence[str], source: Source, node: onnx.NodeProto) -> bool:
    """Whether the instance's lowering is the node, or gives the same bits on random inputs."""
    from onnx.reference import ReferenceEvaluator

    takes = {name: source.types[name] for name in inputs}
    lowered = _model(_lowering(op, inputs, source, node), source)
    constants = [protos.tensor(n, source.constants[n]) for n in node.input if n in source.constants]
    own = {n: source.constants[n] for n in takes if n in source.constants}
    original = onnx.GraphProto(name="node", node=[node], initializer=constants)
    original.input.extend(protos.declarations(takes, [n for n in takes if n not in own]))
    original.output.extend(protos.declarations(source.types, node.output))
    runs = [ReferenceEvaluator(m) for m in (lowered, _model(original, source))]
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


def _model(graph: onnx.GraphProto, source: Source) -> onnx.ModelProto:
    return protos.model(graph, source.opset)


def _samples(takes: Mapping[str, TensorType]) -> Iterator[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    for _ in range(2):
        fed = {}
        for name, type_ in takes.items():
            drawn = rng.uniform(-1, 1, type_.shape) if type_.dtype.is_float else None
            drawn = rng.integers(0, 2, type_.shape) if drawn is None else drawn
            fed[name] = drawn.astype(type_.dtype.numpy)
        yield fed
