"""The reference: a concrete graph, operator by operator, in float64.

Values of every floating dtype are carried as float64 tensors, integers and booleans in their own
dtype (or its carrier, see nnfuzz.operators.carriers) with its wrap-around. `Cast` rounds to its
target and is lifted back to float64.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.carriers import settled, tensor
from nnfuzz.operators.operator import flatten


class ReferenceFault(RuntimeError):
    """A fault of nnfuzz: an operator's reference semantics fail or break the declared type."""


def reference(graph: Graph, params: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Every value of a concrete graph, intermediates included, by name.

    params: inputs and weights in their own dtypes.

    Raises: ReferenceFault if an operator's `torch` raises, or yields another type than declared.
    """
    with torch.inference_mode():
        values = lifted(graph, params)
        for node in graph.nodes:
            values.update(
                zip(node.outputs, _computed(graph, node, [values[n] for n in node.inputs]))
            )
    return values


def lifted(graph: Graph, params: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Copies of inputs and weights as tensors, floats in float64."""
    return {
        name: _lifted(np.asarray(params[name]), graph.type(name).dtype)
        for name in (*graph.inputs, *graph.weights)
    }


def _lifted(array: np.ndarray, dtype: DType) -> Tensor:
    return torch.from_numpy(np.array(array, np.float64)) if dtype.is_float else tensor(array)


def _computed(graph: Graph, node: Node, inputs: list[Tensor]) -> list[Tensor]:
    """One node's outputs, floats in float64. Raises: ReferenceFault."""
    try:
        results = list(flatten(node.op.torch(*inputs)))
    except Exception as error:
        raise ReferenceFault(f"{node!r} on {[_brief(x) for x in inputs]}: {error}") from error
    for i, (name, result) in enumerate(zip(node.outputs, results, strict=True)):
        declared = graph.values[name].type
        if declared.dtype.is_float and result.dtype is not torch.float64:
            results[i] = result = result.to(torch.float64)
        elif declared.dtype.carried:
            results[i] = result = settled(result, declared.dtype)
        if result.shape != declared.shape or (
            not declared.dtype.is_float and result.dtype is not declared.dtype.torch
        ):
            raise ReferenceFault(f"{node!r} yields {_brief(result)}, declared is {declared!r}")
    return results


def _brief(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
