"""Parts of ONNX models, and of test cases: the nodes between some values and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.view import GraphView, NodeView
from nnfuzz.materialize import protos
from nnfuzz.materialize.liveness import keep_only
from nnfuzz.materialize.validity import declared_types
from nnfuzz.materialize.walk import reads
from nnfuzz.testcase.case import ModelError, TestCase

Arrays = Mapping[str, np.ndarray]


def extracted(
    model: onnx.ModelProto,
    given: Mapping[str, onnx.ValueInfoProto],
    outputs: Sequence[str],
    types: Mapping[str, onnx.ValueInfoProto] | None = None,
) -> onnx.ModelProto:
    """The part of a model's main graph that computes some values from others, which are its inputs.

    given: declarations of values of the main graph by name; those that the part does not read are
    no inputs. types: `declared_types` of the model, if they are known.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    types = types or declared_types(model)
    ends = [types.get(name) or onnx.ValueInfoProto(name=name) for name in outputs]
    needed = keep_only(copy.graph, ends, given)
    del copy.graph.input[:]
    copy.graph.input.extend(own for name, own in given.items() if name in needed)
    return copy


def beginning(case: TestCase, count: int, values: Arrays | None = None) -> TestCase | None:
    """The case with so many nodes of its graph, and with outputs that are the model's, or that none
    of these nodes reads. None as for `with_outputs`.

    values: what they are, by name; others are no outputs. None: there is nothing to compare with.
    """
    nodes = case.graph.nodes[:count]
    read = {name for node in nodes for name in node.inputs} - {*case.graph.outputs}
    ends = [name for node in nodes for name in node.outputs if name not in read]
    known = [name for name in ends if values is None or name in values]
    return with_outputs(case, nodes, known, values or {})


def with_outputs(
    case: TestCase, nodes: Sequence[NodeView], names: Sequence[str], values: Arrays
) -> TestCase | None:
    """The case with other outputs, in the same model: its nodes, names and dimensions stay.

    nodes: those of its graph that are needed. names: values of it, to be outputs. values: what they
    are, by name. Nodes that none of them needs are left out of the model. None if the main graph
    does not compute all of them, for it calls functions or was written anew since.
    """
    graph = replace(case.graph, nodes=tuple(nodes), outputs=tuple(names))
    expected = {name: values[name] for name in names if name in values}
    if not case.model:
        return replace(case, graph=graph, expected=expected)
    model, theirs = onnx.load_model_from_string(case.model), {case.in_model(n): n for n in names}
    if not theirs.keys() <= {name for node in model.graph.node for name in node.output}:
        return None
    own = declared_types(model)
    ends = (own.get(n) or _declared(n, case.graph, name) for n, name in theirs.items())
    keep_only(model.graph, ends)
    return replace(case, graph=graph, model=model.SerializeToString(), expected=expected)


def _declared(name: str, graph: GraphView, value: str) -> onnx.ValueInfoProto:
    """A declaration with dtype and rank: sizes may be open in the model, though not here."""
    dtype = DType(graph.dtypes[value]).onnx
    return helper.make_tensor_value_info(name, dtype, [None] * len(graph.shapes[value]))


def declared(arrays: Arrays) -> dict[str, onnx.ValueInfoProto]:
    """Declarations of arrays by name."""
    dtypes = {n: helper.np_dtype_to_tensor_dtype(array.dtype) for n, array in arrays.items()}
    return {n: helper.make_tensor_value_info(n, dtypes[n], a.shape) for n, a in arrays.items()}


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
    part = extracted(model, declared(given), list(filter(None, node.output)))
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
