"""The reference: runs a concrete graph in float64, operator by operator. Also the constants of the
working dtypes, and `lift`, which retypes a graph to wider floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.carriers import settled, tensor
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import flatten
from nnfuzz.operators.rounding import underflow


@dataclass(frozen=True, slots=True)
class Precision:
    """Constants of a working dtype.

    u: unit roundoff. tiny: least magnitude safe from flushing to zero and gradual underflow.
    greatest: largest finite number. twice: 2 for float64, whose reference is inexact too, else 1.
    """

    dtype: torch.dtype
    u: float
    tiny: float
    greatest: float
    twice: float

    @classmethod
    def of(cls, dtype: DType) -> Precision:
        """The constants of a floating dtype."""
        u, twice = dtype.unit_roundoff, 2.0 if dtype is DType.FLOAT64 else 1.0
        return cls(dtype.torch, u, underflow(u), dtype.limits[1], twice)


PRECISIONS: Mapping[DType, Precision] = MappingProxyType(
    {d: Precision.of(d) for d in DType if d.is_float}
)


def representable(y: Tensor, precision: Precision, inputs: list[Interval]) -> Tensor:
    """Mask of elements of `y` (+ - * / or sqrt of the inputs) that the working dtype holds exactly.

    Zero is representable; numbers that may be flushed to zero are not. For float64 the test is
    whether result and operands fit float32, so that no bit was lost.
    """
    if precision.dtype is not torch.float64:
        return (y.to(precision.dtype) == y) & ((y.abs() >= precision.tiny) | (y == 0))
    fits = y.float() == y
    for interval in inputs:
        fits = fits & (interval.lo.float() == interval.lo) & (interval.hi.float() == interval.hi)
    return fits


def is_single_integer(interval: Interval) -> bool:
    """Whether every element of an interval is one known integer."""
    return interval.exact and bool((interval.lo == interval.lo.round()).all())


def overflow_masked(interval: Interval, ref: Tensor, precision: Precision) -> Interval:
    """The interval, masked where elements may overflow the working dtype or are NaN."""
    greatest = precision.greatest
    if interval.any is None and bool(
        ((interval.lo >= -greatest) & (interval.hi <= greatest)).all()
    ):
        return interval
    bad = ~((interval.lo >= -greatest) & (interval.hi <= greatest))
    if interval.any is not None:
        bad = bad | interval.any
    # Masked elements get a finite number, so that sums over their neighbours stay finite.
    tame = torch.nan_to_num(ref, 0.0, 0.0, 0.0).clamp(-greatest, greatest)
    lo = torch.where(bad, tame, interval.lo)
    return Interval(lo, lo if interval.exact else torch.where(bad, tame, interval.hi), bad)


class ReferenceFault(RuntimeError):
    """A fault of nnfuzz: an operator's reference semantics fail or break the declared type."""


def reference(graph: Graph, params: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Every value of a concrete graph by name, intermediate ones included; floats in float64.

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
