"""Builds ONNX protobufs from plain values, several times faster than `onnx.helper`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.opset_imports import OWN_DOMAINS, imported_versions, operator_version
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.walk import graphs

PRODUCER = "nnfuzz"
MAX_IR_VERSION = 13
"""The newest IR version that ONNX Runtime 1.31 loads; onnx 1.23 is at 14."""


def node(
    op_type: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Sequence[AttributeProto] = (),
) -> onnx.NodeProto:
    """A node, named after its first output. `op_type` may be "DOMAIN.NAME"."""
    domain, _, name = op_type.rpartition(".")
    return onnx.NodeProto(
        op_type=name,
        name=outputs[0],
        input=inputs,
        output=outputs,
        attribute=attributes,
        domain=domain,
    )


def attribute(key: str, value: Any) -> AttributeProto:
    """An attribute from a number, a string, a DType, an array, a graph, or a sequence.

    A sequence holds strings or numbers. It is stored as floats if one item is a float, and as
    integers if it is empty. Raises: TypeError for anything else.
    """
    match value:
        case DType():
            return AttributeProto(name=key, type=AttributeProto.INT, i=value.onnx)
        case int() | np.integer():
            return AttributeProto(name=key, type=AttributeProto.INT, i=int(value))
        case float() | np.floating():
            return AttributeProto(name=key, type=AttributeProto.FLOAT, f=float(value))
        case str():
            return AttributeProto(name=key, type=AttributeProto.STRING, s=value.encode())
        case np.ndarray():
            return AttributeProto(name=key, type=AttributeProto.TENSOR, t=constant_proto("", value))
        case onnx.GraphProto():
            return AttributeProto(name=key, type=AttributeProto.GRAPH, g=value)
        case list() | tuple():
            return _sequence(key, value)
    raise TypeError(f"attribute {key}: {type(value).__name__} has no ONNX form")


def _sequence(key: str, items: Sequence[Any]) -> AttributeProto:
    if all(isinstance(v, (int, np.integer)) for v in items):
        return AttributeProto(name=key, type=AttributeProto.INTS, ints=items)
    if all(isinstance(v, (int, float, np.number)) for v in items):
        return AttributeProto(name=key, type=AttributeProto.FLOATS, floats=items)
    if all(isinstance(v, str) for v in items):
        strings = [v.encode() for v in items]
        return AttributeProto(name=key, type=AttributeProto.STRINGS, strings=strings)
    raise TypeError(f"attribute {key}: {items!r} mixes types that ONNX keeps apart")


def constant_proto(name: str, array: np.ndarray) -> TensorProto:
    """A TensorProto with the array's elements as little-endian raw data."""
    dtype = DType.of(array.dtype)
    if not dtype.native:  # two 4-bit elements share a byte
        return numpy_helper.from_array(array, name)
    data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return TensorProto(name=name, dims=array.shape, data_type=dtype.onnx, raw_data=data)


@cache
def type_name(dtype: DType) -> str:
    """The name of a tensor type in ONNX schemas, such as "tensor(double)"."""
    return f"tensor({TensorProto.DataType.Name(dtype.onnx).lower()})"


def value_info(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    """The declaration of a value of concrete type."""
    shape = onnx.TensorShapeProto(dim=[{"dim_value": d} for d in type_.shape])
    kind = onnx.TypeProto.Tensor(elem_type=type_.dtype.onnx, shape=shape)
    return onnx.ValueInfoProto(name=name, type=onnx.TypeProto(tensor_type=kind))


def declarations(
    types: Mapping[str, TensorType], names: Iterable[str]
) -> list[onnx.ValueInfoProto]:
    """Declarations of the named values, each name once."""
    return [value_info(name, types[name]) for name in dict.fromkeys(names)]


def model(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    """A model at an opset of ONNX, with the oldest IR version that supports the opset.

    It imports every other domain of its operators, in the version that ONNX released with the opset
    or an older one in which none of the operators is deprecated; version 1 if ONNX has no schemas.
    """
    operators = ((node.domain, node.op_type) for part in graphs(graph) for node in part.node)
    versions = imported_versions(operators, opset)
    return onnx.ModelProto(
        ir_version=ir_version(opset),
        producer_name=PRODUCER,
        graph=graph,
        opset_import=[onnx.OperatorSetIdProto(domain=d, version=v) for d, v in versions.items()],
    )


def schema_of(
    node: onnx.NodeProto, opset: int, other: defs.OpSchema | None = None
) -> defs.OpSchema:
    """The schema of a node's operator in models of an opset of ONNX.

    other: the schema if ONNX has none. Raises: SchemaError if there is none.
    """
    name, domain = node.op_type, node.domain
    if other is not None and not defs.has(name, domain):
        return other
    if domain in OWN_DOMAINS:
        return defs.get_schema(name, max_inclusive_version=opset)
    return defs.get_schema(name, operator_version(name, domain, opset), domain)


def imports(node: onnx.NodeProto, opset: int) -> dict[str, int]:
    """Domain -> version, as a model with this one node imports them."""
    return imported_versions([(node.domain, node.op_type)], opset)


def typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the types of all values, which onnx.reference needs for operators defined as
    functions; unchanged if inference fails."""
    try:
        return onnx.shape_inference.infer_shapes(model)
    except onnx.shape_inference.InferenceError:
        return model


def ir_version(opset: int) -> int:
    """The oldest IR version for an opset, within the limits of ONNX Runtime. At least 4, so that
    initializers need not be inputs too."""
    return max(4, min(helper.OP_SET_ID_VERSION_MAP["ai.onnx", opset], MAX_IR_VERSION))
