"""Direct emission: a graph becomes an ONNX model through the operators' own lowerings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.types import TensorType

PRODUCER = "nnfuzz"
DEFAULT_OPSET = 20


class Emitter:
    """Collects ONNX nodes and initializers while operators lower themselves.

    Call it as `emit(op_type, *inputs, outputs=1, **attributes)`: the answer is the output's name,
    or a tuple of names when `outputs` is not 1. An empty input name omits an optional input; an
    attribute that is None is left out; a DType becomes its ONNX code.
    """

    def __init__(self, opset: int, types: Mapping[str, TensorType]) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._types = types
        self._fresh = 0

    def __call__(
        self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any
    ) -> str | tuple[str, ...]:
        names = tuple(self._name(op_type) for _ in range(outputs))
        node = onnx.NodeProto(
            op_type=op_type, name=names[0], input=_trimmed(inputs), output=names
        )
        for key, value in attributes.items():
            if value is not None:
                node.attribute.append(_attribute(key, value))
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def const(self, value: Any, dtype: DType) -> str:
        """The name of an initializer that holds a number, a (nested) list or an array."""
        name = self._name("c")
        array = np.asarray(value, dtype=dtype.numpy)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def type(self, name: str) -> TensorType:
        """The concrete type of a value of the graph. Raises: KeyError for an emitted name."""
        return self._types[name]

    def rename(self, old: str, new: str) -> None:
        """Give the output of the last nodes the name that the graph uses for it."""
        for node in reversed(self.nodes):
            for i, output in enumerate(node.output):
                if output == old:
                    node.output[i] = new
                    return
            for i, used in enumerate(node.input):
                if used == old:
                    node.input[i] = new
        raise KeyError(old)

    def _name(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}_{self._fresh}"


def emit_model(
    graph: Graph, weights: Mapping[str, np.ndarray], opset: int = DEFAULT_OPSET
) -> onnx.ModelProto:
    """The ONNX model of a concrete graph; `weights` become initializers."""
    types = {name: value.type for name, value in graph.values.items()}
    emit = Emitter(opset, types)
    for node in graph.nodes:
        _emit_node(emit, node.op, node.inputs, node.outputs)
    model = helper.make_model(
        onnx.GraphProto(
            name=PRODUCER,
            node=emit.nodes,
            input=[value_info(n, types[n]) for n in graph.inputs],
            output=[value_info(n, types[n]) for n in graph.outputs],
            initializer=[numpy_helper.from_array(weights[n], n) for n in graph.weights]
            + emit.initializers,
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        producer_name=PRODUCER,
    )
    model.ir_version = min(model.ir_version, helper.find_min_ir_version_for(model.opset_import))
    return model


def _emit_node(emit: Emitter, op: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    names = op.onnx(emit, *inputs)
    names = (names,) if isinstance(names, str) else tuple(names)
    for name, wanted in zip(names, outputs, strict=True):
        if name in emit._types or names.count(name) > 1:
            emit.nodes.append(onnx.NodeProto(op_type="Identity", input=[name], output=[wanted]))
        else:
            emit.rename(name, wanted)


def value_info(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    """The ONNX declaration of a value of concrete type."""
    return helper.make_tensor_value_info(name, type_.dtype.onnx, type_.shape)


def _trimmed(inputs: Sequence[str]) -> list[str]:
    names = list(inputs)
    while names and not names[-1]:
        names.pop()
    return names


def _attribute(key: str, value: Any) -> onnx.AttributeProto:
    if isinstance(value, DType):
        value = value.onnx
    elif isinstance(value, bool):
        value = int(value)
    elif isinstance(value, tuple):
        value = list(value)
    return helper.make_attribute(key, value)
