"""Runs an ONNX model node by node, so that a fault can be planted at any node of any operator.

A node is computed by ONNX Runtime without optimisation and, where that has no kernel, by
onnx.reference. If, Loop, Scan and SequenceMap are walked here: a node in a body is a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from nnfuzz.backends.onnxruntime import OnnxRuntime
from onnx import AttributeProto, helper, numpy_helper

from tests.models import is_refusal


class _Quiet(OnnxRuntime):
    """Without the lines that sessions write to stderr, where planted faults write theirs."""

    def _session(
        self, module: bytes, level: str, passes: Any, severity: int = 3, **more: Any
    ) -> Any:
        return super()._session(module, level, passes, 4, **more)


_RUNTIME = _Quiet()
Value = Any
"""An array, a list of arrays (a sequence), or None for an input that is left out."""


@dataclass(frozen=True, eq=False)
class Node:
    """One node with what decides about its meaning. attrs: Python values by name."""

    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opsets: tuple[tuple[str, int], ...]
    name: str = ""
    domain: str = ""

    def __call__(self, *inputs: Value, **attrs: Any) -> list[Value]:
        """The right outputs, with some attributes replaced (None: left out).

        Raises: NotImplementedError if there is no kernel at all; what ONNX Runtime raises.
        """
        merged = {n: a for n, a in {**self.attrs, **attrs}.items() if a is not None}
        model = self._model(inputs, merged)
        feeds = {f"i{k}": x for k, x in enumerate(inputs) if x is not None}
        try:
            return _by_runtime(model, feeds)
        except Exception as error:
            if not is_refusal(_RUNTIME, error) and _known(feeds):
                raise
        return _by_reference(model, feeds)

    def _model(self, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> onnx.ModelProto:
        names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
        outs = [f"o{k}" if name else "" for k, name in enumerate(self.outputs)]
        node = helper.make_node(self.op, names, outs, domain=self.domain)
        for name, value in attrs.items():
            kind = AttributeProto.INTS if value == [] else None  # an empty list does not tell
            node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
        ins = [_declared(f"i{k}", x) for k, x in enumerate(inputs) if x is not None]
        ends = [helper.make_empty_tensor_value_info(name) for name in outs if name]
        graph = helper.make_graph([node], "node", ins, ends)
        opsets = [helper.make_opsetid(*pair) for pair in self.opsets]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


Call = Callable[[Node, Sequence[Value]], Sequence[Value]]
"""Computes one node: Node itself, or something wrong."""


def right(node: Node, inputs: Sequence[Value]) -> Sequence[Value]:
    return node(*inputs)


@dataclass(frozen=True)
class Interpreter:
    """A model and the way to compute its nodes."""

    model: onnx.ModelProto
    call: Call = right

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        graph = self.model.graph
        outputs = self._graph(graph, [], dict(feeds))
        return {value.name: x for value, x in zip(graph.output, outputs)}

    def _graph(
        self, graph: onnx.GraphProto, given: Sequence[Value], scope: Mapping[str, Value]
    ) -> list[Value]:
        """Outputs of a graph whose inputs are `given`, in a scope of outer values."""
        values = {**scope, "": None}
        values.update({t.name: numpy_helper.to_array(t) for t in graph.initializer})
        values.update({value.name: x for value, x in zip(graph.input, given)})
        for proto in graph.node:
            outputs = self._node(proto, values)
            values.update((n, x) for n, x in zip(proto.output, outputs) if n)
        return [values[value.name] for value in graph.output]

    def _node(self, proto: onnx.NodeProto, values: Mapping[str, Value]) -> Sequence[Value]:
        inputs = [values[name] for name in proto.input]
        node = read_node(proto, self.model)
        if proto.op_type in _CONTROL and not proto.domain:
            body = {n: a for n, a in node.attrs.items() if isinstance(a, onnx.GraphProto)}
            bound = {n: lambda *xs, g=g: self._graph(g, xs, values) for n, g in body.items()}
            return _CONTROL[proto.op_type](replace(node, attrs={**node.attrs, **bound}), inputs)
        return self.call(node, inputs)


def read_node(proto: onnx.NodeProto, model: onnx.ModelProto) -> Node:
    attrs = {a.name: _attribute(a) for a in proto.attribute}
    opsets = tuple((entry.domain, entry.version) for entry in model.opset_import)
    ends = tuple(proto.input), tuple(proto.output)
    return Node(proto.op_type, attrs, *ends, opsets, proto.name, proto.domain)


def _attribute(proto: AttributeProto) -> Any:
    value = helper.get_attribute_value(proto)
    return value.decode() if isinstance(value, bytes) else value


def _if(node: Node, inputs: Sequence[Value]) -> list[Value]:
    return node.attrs["then_branch" if inputs[0].item() else "else_branch"]()


def _loop(node: Node, inputs: Sequence[Value]) -> list[Value]:
    trips, go, *carried = inputs
    body, limit = node.attrs["body"], None if trips is None else trips.item()
    stacked: list[list[Value]] = [[] for _ in node.outputs[len(carried) :]]
    count, going = 0, go is None or bool(go.item())
    while going and (limit is None or count < limit):
        on, *rest = body(np.array(count, np.int64), np.array(True), *carried)
        carried, scanned = rest[: len(carried)], rest[len(carried) :]
        for many, one in zip(stacked, scanned):
            many.append(one)
        count, going = count + 1, bool(on.item())
    if any(not many for many in stacked):
        raise NotImplementedError("a Loop that stacks the results of no iteration")
    return [*carried, *(np.stack(many) for many in stacked)]


def _scan(node: Node, inputs: Sequence[Value]) -> list[Value]:
    number = node.attrs["num_scan_inputs"]
    carried, scanned = list(inputs[:-number]), inputs[-number:]
    results = len(node.outputs) - len(carried)
    ways, axes = (_listed(node, f"scan_input_{n}", number) for n in ("directions", "axes"))
    given = [np.moveaxis(x, axis, 0) for x, axis in zip(scanned, axes)]
    given = [x[::-1] if way else x for x, way in zip(given, ways)]
    rows = []
    for slices in zip(*given):
        found = node.attrs["body"](*carried, *map(np.asarray, slices))
        carried = found[: len(carried)]
        rows.append(found[len(carried) :])
    if not rows:
        raise NotImplementedError("a Scan of no elements")
    ways, axes = (_listed(node, f"scan_output_{n}", results) for n in ("directions", "axes"))
    stacked = [np.stack(column[::-1] if way else column) for column, way in zip(zip(*rows), ways)]
    return [*carried, *(np.moveaxis(x, 0, axis) for x, axis in zip(stacked, axes))]


def _listed(node: Node, name: str, number: int) -> Sequence[int]:
    return node.attrs.get(name) or [0] * number


def _sequence_map(node: Node, inputs: Sequence[Value]) -> list[Value]:
    first, *others = inputs
    rows = [
        node.attrs["body"](x, *(o[k] if isinstance(o, list) else o for o in others))
        for k, x in enumerate(first)
    ]
    return [list(column) for column in zip(*rows)] if rows else [[] for _ in node.outputs]


_CONTROL = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}


def _declared(name: str, value: Value) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        type_ = helper.np_dtype_to_tensor_dtype(value[0].dtype) if value else 1
        return helper.make_tensor_sequence_value_info(name, type_, None)
    type_ = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, type_, value.shape)


def _known(feeds: Mapping[str, Value]) -> bool:
    """Whether ONNX Runtime's Python binding takes the inputs: sequences of plain arrays only."""
    return all(
        x and all(y.dtype.isbuiltin for y in x) for x in feeds.values() if isinstance(x, list)
    )


def _by_runtime(model: onnx.ModelProto, feeds: Mapping[str, Value]) -> list[Value]:
    if any(isinstance(x, list) for x in feeds.values()):
        session = _RUNTIME._session(model.SerializeToString(), "O0", ())
        return _placed(model, session.run(None, dict(feeds)))
    program = _RUNTIME.build(model.SerializeToString(), "O0")
    return _placed(model, program(dict(feeds)).values())


def _by_reference(model: onnx.ModelProto, feeds: Mapping[str, Value]) -> list[Value]:
    """In the dtypes that ONNX infers, since NumPy widens sums of small integers."""
    from onnx.reference import ReferenceEvaluator

    op = model.graph.node[0].op_type
    try:
        outputs = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception as error:
        raise NotImplementedError(f"neither compiler nor reference computes {op}") from error
    ends = onnx.shape_inference.infer_shapes(model).graph.output
    kinds = [value.type.tensor_type.elem_type for value in ends]
    dtypes = [helper.tensor_dtype_to_np_dtype(kind) if kind else None for kind in kinds]
    return _placed(model, [x if d is None else np.asarray(x, d) for x, d in zip(outputs, dtypes)])


def _placed(model: onnx.ModelProto, outputs: Iterable[Value]) -> list[Value]:
    """Results at the places of a node's outputs; None at those without a name."""
    found = iter(outputs)
    names = model.graph.node[0].output
    return [arrays(next(found)) if name else None for name in names]


def arrays(value: Value) -> Value:
    """The value without NumPy's scalars, which arithmetic and both evaluators return at times."""
    if isinstance(value, list):
        return [arrays(x) for x in value]
    return None if value is None else np.asarray(value)
