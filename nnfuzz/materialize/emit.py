"""Direct emission: a graph becomes an ONNX model through the operators' own lowerings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, pruned
from nnfuzz.ir.sizes import copies, same_model
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import older, protos
from nnfuzz.materialize.errors import GraphFault, MaterializeError, OpsetError
from nnfuzz.materialize.opsets import opset_range
from nnfuzz.materialize.walk import bodies, reads

DEFAULT_OPSET = 20
OPSETS = opset_range("direct")


class Emitter:
    """Collects ONNX nodes and initializers while operators lower themselves.

    Call it as `emit(op_type, *inputs, outputs=1, **attributes)`. The result is the output's name,
    or a tuple of names when `outputs` is not 1. An empty input name omits an optional input, and an
    attribute that is None is left out. A DType becomes its ONNX code.
    """

    def __init__(
        self, opset: int, types: Mapping[str, TensorType], fresh: Iterator[int] | None = None
    ) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.earlier: list[str] = []
        """Values of the graph that are available to the node that is being lowered."""
        self._types = types
        self._fresh = fresh or itertools.count(1)
        self._numbers: dict[str, np.ndarray] = {}

    def __call__(
        self, op_type: str, *inputs: str, outputs: int = 1, **attributes: object
    ) -> str | tuple[str, ...]:
        if self.opset < older.CHANGED:
            return self._older(op_type, inputs, outputs, attributes)
        return self._node(op_type, inputs, outputs, attributes)

    def _older(
        self, op_type: str, inputs: Sequence[str], outputs: int, attributes: Mapping[str, Any]
    ) -> str | tuple[str, ...]:
        """Appends a node for an opset before 13. Raises: LookupError if the old opset cannot
        express it, or a value or type that its old form needs is unknown."""
        axis = attributes.get("axis", -1)
        if op_type in older.FLATTENING and axis != -1:
            order = older.exchanged_with_last(axis, self.type(inputs[0]).rank)
            if order is None:
                return self._node(op_type, inputs, 1, attributes)
            first = self("Transpose", inputs[0], perm=order)
            made = self._node(op_type, [str(first)], 1, {**attributes, "axis": -1})
            return self("Transpose", str(made), perm=order)
        number, opset = lambda name: self._numbers[name].reshape(-1), self.opset
        kept, given = older.with_attribute(op_type, inputs, attributes, opset, number)
        if opset < older.WHOLE:
            given = older.checked(op_type, _trimmed(kept), given, opset, self._types.__getitem__)
        return self._node(op_type, kept, outputs, given)

    def _node(
        self, op_type: str, inputs: Sequence[str], outputs: int, attributes: Mapping[str, Any]
    ) -> str | tuple[str, ...]:
        names = tuple([self._name(op_type) for _ in range(outputs)])
        given = [protos.attribute(k, v) for k, v in attributes.items() if v is not None]
        self.nodes.append(protos.node(op_type, _trimmed(inputs), names, given))
        return names[0] if outputs == 1 else names

    def const(self, value: Any, dtype: DType) -> str:
        """The name of an initializer that holds a number, a (nested) list or an array."""
        name, array = self._name("c"), np.asarray(value, dtype=dtype.numpy)
        self._numbers[name] = array
        self.initializers.append(protos.constant_proto(name, array))
        return name

    def type(self, name: str) -> TensorType:
        """The concrete type of a value of the graph. Raises: KeyError for an emitted name."""
        return self._types[name]

    def subgraph(
        self,
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        build: Callable[..., Sequence[str]],
    ) -> onnx.GraphProto:
        """A graph for an attribute such as a Loop's body. It refers to outer values by their names.

        build(emit, *names of the inputs): emits the nodes and returns the names of the outputs.
        """
        inner = _Inner(self.opset, self._types, self._fresh)
        names = [inner.declare("b", type_) for type_ in inputs]
        results = inner.owned(build(inner, *names))
        return onnx.GraphProto(
            name=self._name("body"),
            node=inner.nodes,
            initializer=inner.initializers,
            input=map(protos.value_info, names, inputs),
            output=map(protos.value_info, results, outputs),
        )

    def graft(self, graph: onnx.GraphProto, inputs: Sequence[str]) -> tuple[str, ...]:
        """Appends copies of a graph's nodes that read `inputs`; returns its outputs' names."""
        names = dict(zip((info.name for info in graph.input), inputs))
        for constant in graph.initializer:
            array = numpy_helper.to_array(constant)
            names[constant.name] = self.const(array, DType.of(array.dtype))
        for node in graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            names.update((name, self._name(node.op_type)) for name in node.output if name)
            self.nodes.append(rename_in_place(copy, names))
        return tuple(names[info.name] for info in graph.output)

    def lower(self, node: Node) -> None:
        """Append the ONNX nodes of a node of the graph; its outputs get the graph's names.

        Raises: GraphFault if the operator's lowering raises or yields too few outputs.
        """
        start = len(self.nodes)
        self.earlier += node.inputs
        try:
            names = node.op.onnx(self, *node.inputs)
            names = [names] if isinstance(names, str) else list(names)
            for name, wanted in zip(names, node.outputs, strict=True):
                self._deliver(name, wanted, start, names.count(name) > 1)
        except Exception as error:
            detail = f"opset {self.opset}, {node!r}: {type(error).__name__}: {error}"
            raise GraphFault(node.op.name, "onnx", detail) from error
        self.earlier += node.outputs

    def _deliver(self, name: str, wanted: str, start: int, shared: bool) -> None:
        """Renames a value to `wanted`, or copies it if it is shared or older than node `start`."""
        made = {output for proto in self.nodes[start:] for output in proto.output}
        if shared or name not in made:
            self.nodes.append(protos.node("Identity", [name], [wanted]))
            return
        for proto in self.nodes[start:]:
            for names in (proto.input, proto.output):
                for i, used in enumerate(names):
                    if used == name:
                        names[i] = wanted

    def _name(self, stem: str) -> str:
        while True:
            name = f"{stem}_{next(self._fresh)}"
            if name not in self._types:
                return name


class _Inner(Emitter):
    """The emitter of a sub-graph inside of an attribute; it records the types of its values."""

    def __init__(self, opset: int, types: Mapping[str, TensorType], fresh: Iterator[int]) -> None:
        self._own = dict(types)
        super().__init__(opset, self._own, fresh)

    def declare(self, stem: str, type_: TensorType) -> str:
        """A fresh name for a value of this type."""
        name = self._name(stem)
        self.known(name, type_)
        return name

    def known(self, name: str, type_: TensorType) -> None:
        """Record the type of a value."""
        self._own[name] = type_

    def _deliver(self, name: str, wanted: str, start: int, shared: bool) -> None:
        """As in Emitter, but an initializer of the sub-graph may be its output and is renamed."""
        own = next((t for t in self.initializers if t.name == name), None)
        if own is None or shared:
            super()._deliver(name, wanted, start, shared)
        else:
            own.name = wanted

    def owned(self, names: Sequence[str]) -> list[str]:
        """The output names; an Identity is added for outer values and for repeated ones."""
        made = {name for node in self.nodes for name in node.output}
        made.update(constant.name for constant in self.initializers)
        found: list[str] = []
        for name in names:
            fresh = name in made and name not in found
            found.append(name if fresh else str(self("Identity", name)))
        return found


def emit_model(
    graph: Graph,
    weights: Mapping[str, np.ndarray],
    opset: int = DEFAULT_OPSET,
) -> onnx.ModelProto:
    """The ONNX model of a concrete graph; `weights` become initializers.

    Equal arguments give equal bytes.
    Raises: OpsetError; GraphFault if an operator's lowering fails; KeyError for a missing weight.
    """
    if not OPSETS[0] <= opset <= OPSETS[1]:
        raise OpsetError("direct emission", opset, OPSETS)
    types = {name: value.type for name, value in graph.values.items()}
    emit = Emitter(opset, types)
    for node in graph.nodes:
        if node.op.since > opset:
            raise OpsetError(node.op.name, opset, (node.op.since, OPSETS[1]))
        emit.lower(node)
    proto = onnx.GraphProto(
        name=protos.PRODUCER,
        node=emit.nodes,
        input=protos.declarations(types, graph.inputs),
        output=protos.declarations(types, graph.outputs),
        value_info=protos.declarations(types, _not_inferred(graph)),
        initializer=[_weight(name, types[name], weights[name]) for name in graph.weights],
    )
    constants = emit.initializers
    if opset < older.CHANGED:  # Old opsets have some constants as attributes.
        read = {name for node in emit.nodes for name in reads(node)}
        constants = [c for c in constants if c.name in read]
    proto.initializer.extend(constants)
    return protos.model(proto, opset)


def writable_part(graph: Graph, opset: int) -> Graph:
    """The graph without the nodes that an opset cannot express. Their outputs become inputs.

    The result may have no nodes.
    """
    if opset >= older.WHOLE or _is_writable(graph, graph.nodes, opset):
        return graph
    lost = [node for node in graph.nodes if not _is_writable(graph, [node], opset)]
    made = {name for node in lost for name in node.outputs}
    kept = [node for node in graph.nodes if not made.intersection(node.outputs)]
    used = dict.fromkeys(name for node in kept for name in node.inputs)
    ends = [name for node in kept for name in node.outputs if name not in used]
    outputs = dict.fromkeys([*(name for name in graph.outputs if name not in made), *ends])
    inputs = [*graph.inputs, *(name for name in used if name in made)]
    part = pruned(graph.values, kept, inputs, graph.weights, outputs)
    part.prescribed = {name: r for name, r in graph.prescribed.items() if name in part.values}
    return part


def _is_writable(graph: Graph, nodes: list[Node], opset: int) -> bool:
    """Whether some nodes of a graph can be lowered at an opset, with what they read as inputs."""
    outputs = list(dict.fromkeys(name for node in nodes for name in node.outputs))
    read = dict.fromkeys(name for node in nodes for name in node.inputs)
    inputs = [name for name in read if name not in set(outputs)]
    values = {name: graph.values[name] for name in (*inputs, *outputs)}
    try:
        model = emit_model(Graph(values, nodes, inputs, [], outputs), {}, opset)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (GraphFault, OpsetError, onnx.shape_inference.InferenceError):
        return False
    return True


def _not_inferred(graph: Graph) -> list[str]:
    """The inner values that operators of other domains than ONNX's compute. ONNX's shape inference
    does not know their types, so a model has to declare them."""
    found = [name for node in graph.nodes if node.op.onnx_domain for name in node.outputs]
    return [name for name in found if name not in graph.outputs]


def _weight(name: str, type_: TensorType, array: np.ndarray) -> onnx.TensorProto:
    if array.shape != type_.shape or DType.of(array.dtype) is not type_.dtype:
        raise ValueError(f"weight {name} is {array.dtype}{list(array.shape)}, declared {type_!r}")
    return protos.constant_proto(name, array)


def rename_in_place(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """The node, changed in place: its values get other names, also inside of its sub-graphs."""
    for used in (node.input, node.output):
        for i, name in enumerate(used):
            used[i] = names.get(name, name)
    node.name = next(filter(None, node.output), "")
    for body in bodies(node):
        own = {v.name for v in (*body.input, *body.initializer)}
        own.update(name for inner in body.node for name in inner.output)
        outer = {old: new for old, new in names.items() if old not in own}
        for inner in body.node:
            rename_in_place(inner, outer)
        for info in body.output:
            info.name = outer.get(info.name, info.name)
    return node


def _trimmed(inputs: Sequence[str]) -> list[str]:
    names = list(inputs)
    while names and not names[-1]:
        names.pop()
    return names


class SizeError(MaterializeError):
    """A graph whose lowering depends on the sizes, so that no model is right at several of them."""


def emit_called(graph: Graph, weights: Mapping[str, np.ndarray], opset: int) -> onnx.ModelProto:
    """One model for a graph that holds copies of itself (nnfuzz.ir.sizes), with symbolic dimensions
    where these are of several sizes.

    Values have the names of the first copy. Dimensions that are equal at every size share a symbol.
    Raises: SizeError if the lowering depends on the sizes.
    """
    parts: list[Graph] = []
    for part in copies(graph):
        if not any(same_model(part, other) for other in parts):
            parts.append(part)
    models = [emit_model(part, weights, opset) for part in parts]
    for model in models[1:]:
        _same(models[0].graph, model.graph)
    symbols: dict[tuple[int, ...], str] = {}
    _open(models[0].graph.input, parts, symbols)
    _open(models[0].graph.output, parts, symbols)
    _open(models[0].graph.value_info, parts, symbols)
    return models[0]


def _same(one: onnx.GraphProto, other: onnx.GraphProto) -> None:
    for a, b in zip(one.node, other.node):
        if a != b:
            raise SizeError(f"the lowering depends on the size: {a.name}")
    constants = [t.SerializeToString() for t in one.initializer]
    if constants != [t.SerializeToString() for t in other.initializer]:
        raise SizeError("a constant depends on the size")
    if len(one.node) != len(other.node):
        raise SizeError("the number of nodes depends on the size")


def _open(
    declared: Sequence[onnx.ValueInfoProto],
    parts: Sequence[Graph],
    symbols: dict[tuple[int, ...], str],
) -> None:
    """Replace the sizes that differ between the copies by symbols."""
    for value in declared:
        shapes = [part.type(value.name).shape for part in parts]
        for dim, sizes in zip(value.type.tensor_type.shape.dim, zip(*shapes)):
            if len(set(sizes)) > 1:
                dim.dim_param = symbols.setdefault(sizes, f"n{len(symbols)}")
