"""ONNX models made static: every value of known type, constants apart from the nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference, version_converter

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType

UNKNOWN_SIZE = 2
"""What a dimension becomes that the model leaves open."""
MAX_NUMEL = 1 << 20


class ReadingError(ValueError):
    """A model that cannot be a starting graph; the message says why."""


@dataclass
class Source:
    """A model made static. types: of all values; constants: initializers and Constant nodes."""

    nodes: list[onnx.NodeProto]
    types: dict[str, TensorType]
    constants: dict[str, np.ndarray]
    opset: int


def static(model: onnx.ModelProto, opset: int) -> Source:
    """The model at an opset, with open dimensions set to UNKNOWN_SIZE. Raises: ReadingError."""
    model = _converted(_static(model), opset)
    try:
        model = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:
        raise ReadingError(f"shape inference fails: {_line(error)}") from error
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        constant = _constant_of(node, constants)
        if constant is None:
            nodes.append(_checked(node))
        else:
            constants[node.output[0]] = constant
    types = {name: _array_type(name, array) for name, array in constants.items()}
    infos = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    types.update((i.name, _type_of(i)) for i in infos if i.name not in types)
    return Source(nodes, types, constants, opset)


def _static(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose open dimensions are fixed."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if not dim.dim_value:
                dim.dim_value = UNKNOWN_SIZE
    del copy.graph.value_info[:]
    for info in copy.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return copy


def _converted(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    domains = {entry.domain: entry.version for entry in model.opset_import}
    foreign = sorted({n.domain for n in model.graph.node} - {"", "ai.onnx"})
    if foreign:
        raise ReadingError(f"operators of the domain {foreign[0]} are not read")
    version = domains.get("", domains.get("ai.onnx", 0))
    if version == opset:
        return model
    try:
        return version_converter.convert_version(model, opset)
    except Exception as error:
        message = f"cannot go from opset {version} to {opset}: {_line(error)}"
        raise ReadingError(message) from error


def _checked(node: onnx.NodeProto) -> onnx.NodeProto:
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        raise ReadingError(f"{node.op_type} has a sub-graph")
    while node.output and not node.output[-1]:
        node.output.pop()
    if "" in node.output:
        raise ReadingError(f"{node.op_type} leaves out an output before another one")
    return node


def _constant_of(node: onnx.NodeProto, constants: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The value of a Constant, or of an Identity of a constant."""
    if node.op_type == "Identity":
        return constants.get(node.input[0])
    if node.op_type != "Constant":
        return None
    (found,) = node.attribute
    value = onnx.helper.get_attribute_value(found)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if found.name.startswith(("value_int", "value_float")):
        return np.asarray(value, np.int64 if "int" in found.name else np.float32)
    raise ReadingError(f"a Constant with {found.name} is not read")


def _type_of(info: onnx.ValueInfoProto) -> TensorType:
    kind = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise ReadingError(f"the type of {info.name} is not known before it runs")
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
    dtype = next((d for d in DType if d.onnx == kind.elem_type), None)
    return _admitted(info.name, dtype, shape)


def _array_type(name: str, array: np.ndarray) -> TensorType:
    try:
        dtype = DType.of(array.dtype)
    except ValueError:
        dtype = None
    return _admitted(name, dtype, array.shape)


def _admitted(name: str, dtype: DType | None, shape: tuple[int, ...]) -> TensorType:
    if dtype is None:
        raise ReadingError(f"{name} has a dtype that nnfuzz does not know")
    if any(d < 0 for d in shape):
        raise ReadingError(f"the shape of {name} is not known before it runs")
    if math.prod(shape) > MAX_NUMEL:
        raise ReadingError(f"{name} has {math.prod(shape)} elements, more than {MAX_NUMEL}")
    return TensorType(dtype, shape)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
