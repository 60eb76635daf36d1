"""Puts special values into valid inputs: NaN, infinities, signed zeros, subnormals, the greatest
and smallest numbers of the dtype."""

from __future__ import annotations

import random
from collections.abc import Mapping

import ml_dtypes
import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.operators.carriers import array

FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)
"""The floating dtypes that have all of these values; 8-bit floats do not."""
SHARE = 0.2
"""Share of a tensor's elements that change; the other elements keep results comparable."""


def at_edges(
    graph: Graph, rng: random.Random, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The inputs, with special values in some elements of each. Weights do not change.

    An integer input changes only if its readers are defined for every value (OpSpec.edges).
    """
    return {name: _edged(graph, name, rng, given) for name, given in inputs.items()}


def _edged(graph: Graph, name: str, rng: random.Random, given: np.ndarray) -> np.ndarray:
    dtype = graph.type(name).dtype
    plain = all(node.op.edges for node in graph.nodes if name in node.inputs)
    if dtype in FLOATS:
        values = float_edges(dtype)
    elif dtype.is_int and dtype.native and plain:
        least, most = map(int, dtype.limits)
        values = [least, most, 0, *([-1] if least else [])]
    else:
        return given
    made, draws = np.array(given), np.random.default_rng(rng.getrandbits(64))
    count = max(1, round(made.size * SHARE)) if made.size else 0
    places = draws.choice(made.size, count, replace=False)
    made.flat[places] = draws.choice(np.array(values, made.dtype), count)
    return made


def float_edges(dtype: DType) -> list[float]:
    info = ml_dtypes.finfo(dtype.numpy)
    most, least = float(info.max), float(info.smallest_subnormal)
    ends = [most, float(info.tiny), least]
    return [np.nan, np.inf, -np.inf, 0.0, -0.0, *ends, *(-end for end in ends)]


def expected(graph: Graph, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs that PyTorch computes, by name."""
    values = execute(graph, tensors({n: params[n] for n in (*graph.inputs, *graph.weights)}))
    return {name: array(values[name], graph.type(name).dtype) for name in graph.outputs}
