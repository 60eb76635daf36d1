"""Replaces one of two neighbouring operators by a plain one, to see which of them is at fault.

If two operators fail only in combination, the first may leave a wrong state that no output shows,
or the second may mishandle a computed operand. If the failure stays with a plain operator in place
of one of them, that one is not needed.
"""

from __future__ import annotations

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Node, Value, pruned
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.reduction.edit import READERS
from nnfuzz.reduction.subject import Inapplicable, Subject, restricted

EQUAL, CAST = READERS
WHERE = "Where"


def read_by(subject: Subject, name: str, reader: str, registry: OpRegistry) -> Subject:
    """The part of the graph that computes a value, followed by one of READERS.

    Raises: Inapplicable.
    """
    graph, type_ = subject.graph, subject.graph.type(name)
    spec, right, out = _spec(registry, reader), f"{name}_right", f"{name}_read"
    dtype = DType.FLOAT64 if type_.dtype.is_float else DType.INT64
    dtype = DType.BOOL if reader == EQUAL else dtype
    if dtype is type_.dtype:
        raise Inapplicable(f"{name} is of the widest dtype")
    params = {right: subject.values[name]} if reader == EQUAL else {}
    op = spec() if reader == EQUAL else spec(to=dtype)
    values = {**graph.values, out: Value(out, TensorType(dtype, type_.shape))}
    values |= {given: Value(given, type_) for given in params}
    nodes = [*graph.nodes, Node(op, (name, *params), (out,))]
    made = pruned(values, nodes, [*graph.inputs, *params], graph.weights, [out])
    return restricted(subject, made, params)


def made_plainly(subject: Subject, node_name: str, registry: OpRegistry) -> Subject:
    """The node alone, whose computed inputs become outputs of Where with the right values.

    Raises: Inapplicable if no input of the node is computed.
    """
    graph, node = subject.graph, subject.node(node_name)
    makers = graph.producer()
    values, nodes = dict(graph.values), []
    params: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(name for name in node.inputs if name in makers):
        type_, given = graph.type(name), subject.values[name]
        fed = {f"{name}_all": np.ones_like(given, bool), f"{name}_right": given}
        fed[f"{name}_other"] = np.zeros_like(given)
        dtypes = (DType.BOOL, type_.dtype, type_.dtype)
        for fed_name, dtype in zip(fed, dtypes, strict=True):
            values[fed_name] = Value(fed_name, TensorType(dtype, type_.shape))
        nodes.append(Node(_spec(registry, WHERE)(), tuple(fed), (name,)))
        params |= fed
    if not nodes:
        raise Inapplicable(f"{node!r} reads nothing that is computed")
    kept = [name for name in graph.outputs if name in node.outputs]
    inputs = [*graph.inputs, *params]
    made = pruned(values, [*nodes, node], inputs, graph.weights, kept)
    return restricted(subject, made, params)


def _spec(registry: OpRegistry, name: str) -> type[OpSpec]:
    try:
        return registry.get(name)
    except KeyError as error:
        raise Inapplicable(str(error)) from error
