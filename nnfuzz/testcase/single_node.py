"""One node of an ONNX model as a model of its own, with the inputs that it reads there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.testcase.case import ModelError

Arrays = Mapping[str, np.ndarray]


def single_node(
    model: onnx.ModelProto, inputs: Arrays, output: str
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of the node that computes a value, and its inputs as onnx.reference computes them.

    What does not depend on the model's inputs stays a constant. Raises: ModelError if there is no
    such node, or one of its values is no tensor or cannot be computed.
    """
    node = next((n for n in model.graph.node if output in n.output), None)
    if node is None:
        raise ModelError(f"no node computes {output}")
    values = _values(model, inputs)
    free = _free(model, inputs)
    graph, fed = onnx.GraphProto(name="node", node=[node]), {}
    for name in dict.fromkeys(name for name in node.input if name):
        if name in free:
            fed[name] = _tensor(values, name)
            graph.input.append(protos.value_info(name, _type(fed[name])))
        else:
            graph.initializer.append(protos.constant_proto(name, _tensor(values, name)))
    for name in filter(None, node.output):
        graph.output.append(protos.value_info(name, _type(_tensor(values, name))))
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return protos.model(graph, opset), fed


def _values(model: onnx.ModelProto, inputs: Arrays) -> Mapping[str, object]:
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return dict(ReferenceEvaluator(model).run(None, dict(inputs), intermediate=True))
    except Exception as error:  # it is written operator by operator in Python
        raise ModelError(f"onnx.reference: {type(error).__name__}: {error}") from error


def _free(model: onnx.ModelProto, inputs: Arrays) -> set[str]:
    """The names of values that depend on the model's inputs."""
    free = {*inputs}
    for node in model.graph.node:
        if not free.isdisjoint(node.input):
            free.update(node.output)
    return free


def _tensor(values: Mapping[str, object], name: str) -> np.ndarray:
    value = values.get(name)
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ModelError(f"{name} is no tensor")
    return np.asarray(value)


def _type(array: np.ndarray) -> TensorType:
    return TensorType(DType.of(array.dtype), array.shape)
