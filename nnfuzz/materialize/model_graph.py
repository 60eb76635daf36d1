"""Reads any ONNX model as a graph that can be printed and drawn; nothing is checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnfuzz.base.reading import Unreadable
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.materialize.validity import declared_types
from nnfuzz.materialize.walk import qualified_name, reads

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, TypeProto

MOST_ELEMENTS = 8
"""Most elements of a tensor attribute that are printed."""
UNKNOWN = "?"
"""Printed for an unknown dtype or size."""


def model_graph(file: Path) -> GraphView:
    """The graph of a model file, with types as far as ONNX's shape inference finds them.

    Raises: Unreadable if the file cannot be read, is no ONNX model, or too large.
    """
    return graph_of(_load(file))


def graph_of(model: ModelProto) -> GraphView:
    """The graph of a model, with types as far as ONNX's shape inference finds them."""
    graph = model.graph
    weights = {tensor.name: _of_tensor(tensor) for tensor in graph.initializer}
    types = {name: _of_type(v.type) for name, v in declared_types(model, follow=True).items()}
    nodes = [_node(node) for node in graph.node]
    named = dict.fromkeys(name for node in nodes for name in (*node.inputs, *node.outputs))
    outputs = [value.name for value in graph.output]
    types = {**dict.fromkeys([*named, *outputs], (UNKNOWN, [UNKNOWN])), **types, **weights}
    return GraphView(
        tuple(ValueView(name, dtype, tuple(shape)) for name, (dtype, shape) in types.items()),
        tuple(nodes),
        tuple(value.name for value in graph.input if value.name not in weights),
        tuple(weights),
        tuple(outputs),
    )


def _load(file: Path) -> ModelProto:
    from nnfuzz.base.untrusted import Unusable, parsed_model, read_bytes

    data = read_bytes(file)
    try:
        model = parsed_model(data, file, alone=False)
    except Unusable:
        raise
    except Unreadable as error:
        raise Unreadable(f"{file} holds no graph: it is no ONNX model, or cut off") from error
    if not model.graph.node and not model.graph.output:
        raise Unreadable(f"{file} holds no graph: it is no ONNX model, or an empty one")
    return model


def _node(node: NodeProto) -> NodeView:
    """A node without omitted inputs, and with the outer values that its sub-graphs read."""
    further = (name for name in reads(node) if name not in node.input)
    return NodeView(
        qualified_name(node),
        tuple(name for name in (*node.input, *further) if name),
        tuple(name for name in node.output if name),
        {attribute.name: _attribute_value(attribute) for attribute in node.attribute},
    )


def _attribute_value(attribute: AttributeProto) -> Any:
    """An attribute's value as text, number or list."""
    from onnx import helper

    if attribute.HasField("g"):
        count = len(attribute.g.node)
        return f"{{{count} node{'s' * (count != 1)}}}"
    if attribute.HasField("t"):
        return _tensor(attribute.t)
    try:
        value = helper.get_attribute_value(attribute)
    except ValueError:  # a type unknown to ONNX, or an attribute of a function's caller
        value = None
    if value is None:
        return "?"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, int | float):
        return value
    return [v.decode(errors="replace") if isinstance(v, bytes) else v for v in value]


def _tensor(tensor: TensorProto) -> str:
    """The type of a tensor, and its elements if they are few."""
    from math import prod

    from onnx import numpy_helper

    dtype, shape = _of_tensor(tensor)
    kind = f"{dtype}{list(shape)}"
    if prod(shape) > MOST_ELEMENTS or tensor.external_data:
        return kind
    return f"{kind} {numpy_helper.to_array(tensor).tolist()}"


def _of_tensor(tensor: TensorProto) -> tuple[str, list[Any]]:
    return _dtype(tensor.data_type), list(tensor.dims)


def _of_type(type_: TypeProto) -> tuple[str, list[Any]]:
    """(dtype, shape); symbolic dimensions by name, "?" for unknown ones."""
    if not type_.HasField("tensor_type"):
        kind = type_.WhichOneof("value")
        return (kind.removesuffix("_type") if kind else UNKNOWN), [UNKNOWN]
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        return _dtype(tensor.elem_type), ["..."]
    sizes = [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or UNKNOWN
        for dim in tensor.shape.dim
    ]
    return _dtype(tensor.elem_type), sizes


def _dtype(number: int) -> str:
    """A dtype's name in NumPy or ml_dtypes; ONNX's own name if these lack it."""
    from onnx import TensorProto, helper

    if number not in helper.get_all_tensor_dtypes():
        return UNKNOWN
    name = helper.tensor_dtype_to_np_dtype(number).name
    return TensorProto.DataType.Name(number).lower() if name == "object" else name
