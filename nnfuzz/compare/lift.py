"""The precision lift: the same graph in the next wider floating dtypes.

A float16 graph often has envelopes so wide that nothing can be compared. Retyped to float32 it
meets most of the same compiler code with intervals 8192 times narrower.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, GraphError, Node, Value
from nnfuzz.operators.operator import ConstraintError, OpSpec

WIDER = {
    DType.FLOAT16: DType.FLOAT32,
    DType.BFLOAT16: DType.FLOAT32,
    DType.FLOAT32: DType.FLOAT64,
}


def lift(graph: Graph, params: Mapping[str, np.ndarray]) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph with 16-bit floats as float32 and float32 as float64, and its inputs and weights.

    Values keep their numbers; names, shapes and the order of nodes stay. Attributes that hold a
    dtype (Cast) follow.

    Raises: LiftError if an operator does not admit the wider dtype, or there is nothing to lift.
    """
    if not any(v.type.dtype in WIDER for v in graph.values.values()):
        raise LiftError("no value is float16, bfloat16 or float32")
    wide = Graph(
        {n: Value(n, v.type.with_dtype(_wider(v.type.dtype))) for n, v in graph.values.items()},
        [Node(_lifted(n.op), n.inputs, n.outputs) for n in graph.nodes],
        list(graph.inputs),
        list(graph.weights),
        list(graph.outputs),
    )
    try:
        wide.verify()
    except (GraphError, ConstraintError) as error:
        raise LiftError(str(error)) from error
    names = (*graph.inputs, *graph.weights)
    return wide, {n: np.asarray(params[n]).astype(wide.type(n).dtype.numpy) for n in names}


class LiftError(ValueError):
    """A graph cannot be retyped to wider floating dtypes."""


def _wider(dtype: DType) -> DType:
    return WIDER.get(dtype, dtype)


def _lifted(op: OpSpec) -> OpSpec:
    if not any(isinstance(v, DType) for v in op.attributes.values()):
        return op
    return type(op)(**{k: _attribute(v) for k, v in op.attributes.items()})


def _attribute(value: Any) -> object:
    return _wider(value) if isinstance(value, DType) else value
