"""Imports an ONNX model as a graph: the inverse of emission, for models that nnfuzz did not write.

A node whose operator has a spec becomes an instance of the spec if both are provably equivalent:
lowered again, the instance yields the same node or, on random inputs, the same bits. Any other node
stays as it is, in an `Opaque` operator, together with nodes that share values with it that a graph
cannot hold. Constants that shape a result become attributes, other constants weights; a weight
whose elements are all equal keeps its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import onnx

from nnfuzz.ir.graph import Graph, GraphError, Node, Value
from nnfuzz.ir.sizes import with_renamed_values
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.facts import MAX_NUMEL, Facts, Types, expressed
from nnfuzz.materialize.instances import BoundOperator, by_lowering, by_name
from nnfuzz.materialize.regions import NodeGroup
from nnfuzz.materialize.static import (
    NOTHING_COMPUTED,
    OnnxImportError,
    StaticModel,
    inside,
    reason_for_nothing,
    static,
)
from nnfuzz.materialize.walk import bodies, qualified_name, reads
from nnfuzz.operators.foreign import Opaque
from nnfuzz.operators.operator import ConstraintError
from nnfuzz.operators.registry import OpRegistry

SMALL = 16
"""Constants with at most so many elements stay inside of an opaque node: axes, scales, shapes."""

MOST_AS_ONE = 6
"""Most nodes that are compared with the lowering of one spec."""


@dataclass
class _Draft:
    """The graph so far. names: name in the model -> in the graph. lost: as in ImportedModel."""

    graph: Graph = field(default_factory=Graph)
    names: dict[str, str] = field(default_factory=dict)
    lost: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class ImportedModel:
    """A model as a concrete graph, whose values have new names.

    sizes: by name, the size chosen for each dimension that the model leaves open. lost: (operator,
    reason) of each node that could not be imported. names: name in the graph -> name in the model.
    constants: those of the model, weights included, by their names in the model.
    """

    graph: Graph
    sizes: Mapping[str, int]
    lost: tuple[tuple[str, str], ...]
    names: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of the model's nodes that are in the graph."""
        opaque = (len(n.op.graph.node) for n in self.graph.nodes if isinstance(n.op, Opaque))
        return sum(opaque) + sum(not isinstance(n.op, Opaque) for n in self.graph.nodes)


def import_onnx(
    model: onnx.ModelProto,
    registry: OpRegistry,
    opset: int,
    given: Mapping[str, np.ndarray] = MappingProxyType({}),
    largest: int = MAX_NUMEL,
) -> ImportedModel:
    """Imports as much of the model as a graph can hold.

    given: values of the model's inputs, if known. Inputs that determine shapes, or are an attribute
    of an operator, become constants with these values. largest: the most elements of a value.

    Outputs of nodes that are left out, such as those of a foreign domain, become inputs. Sequences
    and tensors whose size depends on data occur only inside of opaque nodes. Raises:
    OnnxImportError if nothing is left.
    """
    source = static(model, opset, given, largest, partial(_types, registry))
    draft = _Draft()
    draft.graph.inputs += [_declared(draft, source, name, "p") for name in source.inputs]
    for region in source.regions:
        _append(draft, source, region, registry)
    fresh = _prune(draft, source)
    lost = (*source.lost, *draft.lost)
    if draft.lost and not draft.graph.nodes:
        raise OnnxImportError(reason_for_nothing(lost))
    _check(draft.graph)
    names = {fresh[name]: theirs for theirs, name in draft.names.items() if name in fresh}
    return ImportedModel(draft.graph, source.sizes, lost, names, source.constants)


def opaque_nodes(graph: Graph) -> list[str]:
    """The ONNX operators in a graph that have no spec, one entry per node."""
    opaque = [node.op for node in graph.nodes if isinstance(node.op, Opaque)]
    return [proto.op_type for op in opaque for proto in op.graph.node]


def _prune(draft: _Draft, source: StaticModel) -> dict[str, str]:
    """Chooses as outputs those of the model and values that nobody reads. Returns old -> new name
    of each remaining value. Arithmetic on shapes whose results have all become attributes is
    removed."""
    graph, wanted = draft.graph, {draft.names.get(name) for name in source.outputs}
    spare = {draft.names.get(name) for name in source.computed} - wanted
    nodes, read = graph.nodes, set[str]()
    graph.nodes = []
    for node in reversed(nodes):
        if not spare.issuperset(node.outputs) or not read.isdisjoint(node.outputs):
            read.update(node.inputs)
            graph.nodes.insert(0, node)
    made = [name for node in graph.nodes for name in node.outputs]
    graph.inputs = [name for name in graph.inputs if name in read]
    graph.weights = [name for name in graph.weights if name in read]
    kept = {*graph.inputs, *graph.weights, *made}
    graph.values = {name: value for name, value in graph.values.items() if name in kept}
    graph.prescribed = {n: r for n, r in graph.prescribed.items() if n in kept}
    graph.outputs = [name for name in made if name in wanted or name not in read]
    names = {name: f"{name[0]}{i}" for i, name in enumerate(graph.values)}
    rename(graph, names)  # numbers without gaps, which generation continues
    return names


def rename(graph: Graph, names: Mapping[str, str]) -> None:
    """Give all values of a graph other names. names: old name -> new name."""
    graph.values = {names[n]: Value(names[n], v.type) for n, v in graph.values.items()}
    graph.prescribed = {names[n]: r for n, r in graph.prescribed.items()}
    for kept in (graph.inputs, graph.weights, graph.outputs):
        kept[:] = [names[n] for n in kept]
    graph.nodes = [with_renamed_values(node, names) for node in graph.nodes]


def _check(graph: Graph) -> None:
    if not graph.nodes or not graph.outputs:
        raise OnnxImportError(NOTHING_COMPUTED)
    try:
        graph.verify()
    except (GraphError, ConstraintError) as error:
        raise OnnxImportError(str(error)) from error


# -- region by region ---------------------------------------------------------------------------


def _append(draft: _Draft, source: StaticModel, region: NodeGroup, registry: OpRegistry) -> None:
    described = (
        _described(source, region, registry)
        or _decided(source, region, registry)
        or _expanded(source, region, registry)
    )
    unrun = [n for n in region.nodes if not set(source.uncomputed).isdisjoint(n.output)]
    if described is None and unrun:
        draft.lost += [(n.op_type, "onnx.reference does not compute it") for n in unrun]
        draft.graph.inputs += [_declared(draft, source, name, "p") for name in region.outputs]
        return
    found = described or _undescribed(source, region)
    if not found.inputs:  # A constant becomes a weight when read, a random value an input.
        given = [name for name in region.outputs if name not in source.constants]
        draft.graph.inputs += [_declared(draft, source, name, "p") for name in given]
        return
    names = [_read_by(draft, source, name) for name in found.inputs]
    made = [_declared(draft, source, name, "v") for name in found.outputs]
    draft.graph.nodes.append(Node(found.op, tuple(names), tuple(made)))


def _read_by(draft: _Draft, source: StaticModel, name: str) -> str:
    """The graph's name of a value; a constant becomes a weight when it is first read."""
    if name not in draft.names:
        weight = _declared(draft, source, name, "w")
        draft.graph.weights.append(weight)
        array = source.constants[name]
        if array.size and (array == array.flat[0]).all():
            draft.graph.prescribed[weight] = (array.flat[0].item(),) * 2
    return draft.names[name]


def _declared(draft: _Draft, source: StaticModel, name: str, stem: str) -> str:
    fresh = f"{stem}{len(draft.names)}"
    draft.names[name] = fresh
    draft.graph.values[fresh] = Value(fresh, source.types[name])
    return fresh


def _described(
    source: StaticModel, region: NodeGroup, registry: OpRegistry
) -> BoundOperator | None:
    """The nodes as one instance of a spec, or None."""
    first, kinds = region.nodes[0], {node.op_type for node in region.nodes}
    if len(region.nodes) > MOST_AS_ONE or any(
        body for node in region.nodes for body in bodies(node)
    ):
        return None
    if region.outputs != tuple(filter(None, region.results)):
        return None
    specs = [spec for spec in registry.specs() if spec.onnx_domain == first.domain]
    specs = [s for s in specs if any(k in s.name for k in kinds) and s.since <= source.opset]
    specs.sort(key=lambda spec: spec.name != qualified_name(first))
    for instance in (by_name, by_lowering):
        for spec in specs:
            found = instance(source, region, spec)
            if found is not None:
                return found
    return None


def _types(registry: OpRegistry, found: Facts, node: onnx.NodeProto) -> Types:
    """The types of the outputs of a node by the spec that describes it; none if there is none."""
    held = {name: expressed(found.types[name]) for name in reads(node)}
    types = {name: own for name, own in held.items() if own is not None}
    constants = {name: found.constants[name] for name in types if name in found.constants}
    outputs = tuple(filter(None, node.output))
    group = NodeGroup((node,), tuple(held), outputs)
    ends = types, constants, frozenset[str](), (), outputs
    source = StaticModel((group,), *ends, found.opset, {}, (), outputs)
    _described(source, group, registry)
    return {name: protos.value_info(name, types[name]).type for name in outputs if name in types}


def _decided(source: StaticModel, region: NodeGroup, registry: OpRegistry) -> BoundOperator | None:
    """The node as an instance of a spec that takes given inputs as attributes, or None."""
    values = {name: source.given[name] for name in region.inputs if name in source.given}
    if not values:
        return None
    found = _described(replace(source, constants={**source.constants, **values}), region, registry)
    if found is not None:
        source.constants.update((n, a) for n, a in values.items() if n not in found.inputs)
    return found


def _expanded(source: StaticModel, region: NodeGroup, registry: OpRegistry) -> BoundOperator | None:
    """The node as an expansion into operators that all have a spec, or None."""
    try:
        inner = inside(source, *region.nodes)
        draft = _Draft()
        for name in inner.inputs:
            draft.graph.inputs.append(_declared(draft, inner, name, "p"))
        for part in inner.regions:
            _append(draft, inner, part, registry)
        for name in region.outputs:
            _read_by(draft, inner, name)  # some are constants
    except Exception:  # several nodes, or an exception of a step
        return None
    graph = draft.graph
    opaque = inner.lost or any(isinstance(node.op, Opaque) for node in graph.nodes)
    if opaque or any(value.type.dtype.carried for value in graph.values.values()):
        return None
    rename(graph, {own: name for name, own in draft.names.items()})
    kept, inputs, takes, gives = _kept(source, region)
    graph.values |= {n: Value(n, t) for n, t in zip(inputs, takes)}
    graph.weights = [name for name in graph.weights if name not in inputs]
    graph.inputs, graph.outputs, graph.prescribed = inputs, list(region.outputs), {}
    if not all(graph.type(n).same(t) for n, t in zip(graph.outputs, gives)):
        return None
    spec = registry.expanded
    held = {n: inner.constants[n].astype(graph.type(n).dtype.numpy) for n in graph.weights}
    op = spec.of(kept, source.opset, takes, gives, meaning=spec.meaning_of(graph, held))
    return BoundOperator(op, inputs, list(region.outputs))


def _undescribed(source: StaticModel, region: NodeGroup) -> BoundOperator:
    graph, inputs, takes, gives = _kept(source, region)
    return BoundOperator(Opaque.of(graph, source.opset, takes, gives), inputs, list(region.outputs))


def _kept(
    source: StaticModel, region: NodeGroup
) -> tuple[onnx.GraphProto, list[str], list[TensorType], list[TensorType]]:
    """A region with its small constants as an ONNX graph; its other inputs; all inputs' and
    outputs' types."""
    kept = [n for n in region.inputs if n in source.constants]
    small = {name for name in kept if source.constants[name].size <= SMALL}
    inputs = [name for name in region.inputs if name not in small]
    graph = onnx.GraphProto(name="node", node=region.nodes)
    graph.input.extend(protos.declarations(source.types, inputs))
    graph.output.extend(protos.declarations(source.types, region.outputs))
    graph.initializer.extend(protos.constant_proto(n, source.constants[n]) for n in sorted(small))
    takes, gives = ([source.types[n] for n in names] for names in (inputs, region.outputs))
    return graph, inputs, takes, gives
