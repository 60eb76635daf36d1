"""Parts of ONNX models: the nodes between some values and others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import numpy as np
import onnx
from onnx import helper

from nnfuzz.materialize import protos
from nnfuzz.materialize.walk import reads
from nnfuzz.testcase.case import ModelError

Arrays = Mapping[str, np.ndarray]


def extracted(model: onnx.ModelProto, given: Arrays, outputs: Sequence[str]) -> onnx.ModelProto:
    """The part of a model's main graph that computes some values from others, which are its inputs.

    given: values of the main graph by name; those that the part does not read are no inputs.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph, own = copy.graph, {**inferred(model), **{v.name: v for v in model.graph.output}}
    needed = keep_only(graph, outputs, given)
    held = [tensor for tensor in graph.initializer if tensor.name in needed - given.keys()]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(held)
    for name in (name for name in given if name in needed):
        dtype = helper.np_dtype_to_tensor_dtype(given[name].dtype)
        graph.input.append(helper.make_tensor_value_info(name, dtype, given[name].shape))
    graph.output.extend(own.get(name) or onnx.ValueInfoProto(name=name) for name in outputs)
    return copy


def keep_only(
    graph: onnx.GraphProto, outputs: Sequence[str], given: Collection[str] = ()
) -> set[str]:
    """Removes all outputs, and nodes that compute nothing for the new ones that is not given.
    Returns the names of the values that the remaining nodes read.
    """
    needed, kept = {*outputs}, []
    for node in reversed(graph.node):
        if not needed.difference(given).isdisjoint(node.output):
            kept.append(node)
            needed.update(reads(node))
    del graph.output[:], graph.node[:]
    graph.node.extend(reversed(kept))
    return needed


def inferred(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """The declarations of values inside of the main graph, as ONNX infers them from the model."""
    with suppress(Exception):  # ONNX raises many kinds, even for models that compilers accept
        model = onnx.shape_inference.infer_shapes(model)
    return {value.name: value for value in model.graph.value_info}


def single_node(
    model: onnx.ModelProto, inputs: Arrays, output: str
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of the node that computes a value, and its inputs as onnx.reference computes them.

    What does not depend on the model's inputs stays a constant. Raises: ModelError if there is no
    such node, or one of its inputs is no tensor or cannot be computed.
    """
    node = next((n for n in model.graph.node if output in n.output), None)
    if node is None:
        raise ModelError(f"no node computes {output}")
    values = values_of(model, inputs)
    free = {*inputs}
    for own in model.graph.node:
        if not free.isdisjoint(reads(own)):
            free.update(own.output)
    if odd := [name for name in reads(node) if name not in values]:
        raise ModelError(f"{odd[0]} is no tensor")
    given = {name: values[name] for name in reads(node)}
    part = extracted(model, given, list(filter(None, node.output)))
    fed = [value for value in part.graph.input if value.name in free]
    del part.graph.input[:]
    part.graph.input.extend(fed)
    fixed = (protos.constant_proto(name, given[name]) for name in given if name not in free)
    part.graph.initializer.extend(fixed)
    return part, {value.name: given[value.name] for value in fed}


def values_of(model: onnx.ModelProto, inputs: Arrays) -> dict[str, np.ndarray]:
    """The tensors that onnx.reference computes in the main graph, by name, with inputs and
    constants. Raises: ModelError.
    """
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            values = dict(ReferenceEvaluator(model).run(None, dict(inputs), intermediate=True))
    except Exception as error:  # it is written operator by operator in Python
        raise ModelError(f"onnx.reference: {type(error).__name__}: {error}") from error
    tensors = (np.ndarray, np.generic)
    return {name: np.asarray(own) for name, own in values.items() if isinstance(own, tensors)}
