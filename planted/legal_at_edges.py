"""Correct compilers that make different use of what is left open at edges.

Each computes a graph of nnfuzz's operator by operator and may change what an operator reads and
gives: subnormal numbers are flushed, zeros get another sign where arithmetic does not decide on it,
NaN and infinities are ignored by operators that ONNX does not define for them, functions are a
little off, quotients are products with a reciprocal, values stay in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nnfuzz.compare.edges import exact
from nnfuzz.compare.reference import reference
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.operators.carriers import array, settled
from nnfuzz.operators.families.elementwise import Elementwise
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.operator import flatten

Kernel = Callable[[Node, list[Tensor]], list[Tensor]]
NATIVE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Variation:
    name: str
    text: str
    kernel: Kernel


VARIATIONS: list[Variation] = []


def variation(kernel: Kernel) -> Kernel:
    text = " ".join((kernel.__doc__ or "").split())
    VARIATIONS.append(Variation(kernel.__name__, text, kernel))
    return kernel


def plain(node: Node, xs: list[Tensor]) -> list[Tensor]:
    return list(flatten(node.op.torch(*xs)))


def _flushed(x: Tensor, signed: bool) -> Tensor:
    if x.dtype not in (torch.float32, torch.float64):
        return x
    zero = torch.zeros_like(x)
    small = x.abs() < torch.finfo(x.dtype).tiny
    return torch.where(small & (x != 0), torch.copysign(zero, x) if signed else zero, x)


def _moves(node: Node) -> bool:
    """Whether an operator only moves or selects elements, and so computes nothing."""
    return isinstance(node.op, DataMovement) or bool(getattr(node.op, "selects", False))


@variation
def flushes_to_signed_zeros(node, xs):
    """Subnormal operands and results are zeros of their sign."""
    if _moves(node):
        return plain(node, xs)
    return [_flushed(y, True) for y in plain(node, [_flushed(x, True) for x in xs])]


@variation
def flushes_to_zero(node, xs):
    """Subnormal operands and results are +0.0."""
    if _moves(node):
        return plain(node, xs)
    return [_flushed(y, False) for y in plain(node, [_flushed(x, False) for x in xs])]


@variation
def gives_other_zeros(node, xs):
    """The zeros of functions, sums and activations have the other sign."""
    ys = plain(node, xs)
    if _decides(node):
        return ys
    return [torch.where(y == 0, -y, y) if y.dtype in NATIVE else y for y in ys]


def _decides(node: Node) -> bool:
    """Whether an operator decides on the sign of zero."""
    own = isinstance(node.op, Elementwise) and exact(node.op, len(node.inputs))
    return node.op.edges and (_moves(node) or own)


@variation
def ignores_what_is_no_number(node, xs):
    """Where ONNX does not define an operator for NaN and infinities, 0 stands for them."""
    ys = plain(node, xs)
    if node.op.edges or all(x.dtype not in NATIVE or bool(x.isfinite().all()) for x in xs):
        return ys
    tame = [torch.where(_kept(node, x), x, 0.0).to(x.dtype) if x.dtype in NATIVE else x for x in xs]
    return plain(node, tame)


def _kept(node: Node, x: Tensor) -> Tensor:
    """Numbers, and NaN where the operator carries it."""
    return x.isfinite() | (x.isnan() if node.op.carries_nan else False)


@variation
def spreads_what_is_no_number(node, xs):
    """Where ONNX does not define an operator for NaN and infinities, NaN stands for both."""
    ys = plain(node, xs)
    if node.op.edges or all(x.dtype not in NATIVE or bool(x.isfinite().all()) for x in xs):
        return ys
    return plain(node, [torch.where(x.isfinite(), x, torch.nan).to(x.dtype)
                        if x.dtype in NATIVE else x for x in xs])  # fmt: skip


@variation
def computes_functions_inexactly(node, xs):
    """Functions that are not rounded correctly are one unit in the last place off."""
    (y, *_) = ys = plain(node, xs)
    wide = (torch.float32, torch.float64)
    if not isinstance(node.op, Elementwise) or y.dtype not in wide or xs[0].dtype not in wide:
        return ys
    if exact(node.op, len(node.inputs)):
        return ys
    unit = torch.finfo(y.dtype).eps
    radius = node.op.radius(unit / 2, y.double(), *(x.double() for x in xs))
    off = torch.where(radius >= unit * y.double().abs(), y * (1 + unit), y)
    return [off.clamp(*node.op.within)]


@variation
def divides_by_reciprocals_of_normal_numbers(node, xs):
    """a / b is a * (1 / b) where neither is near an end of the range, nor the quotient exact."""
    ys = plain(node, xs)
    if node.op.name != "Div" or xs[0].dtype not in NATIVE:
        return ys
    (q,), (a, b), info = ys, xs, torch.finfo(xs[0].dtype)
    fits = (b.abs() < 0.25 / info.tiny) & (b.abs() > 4 / info.max) & q.isfinite() & a.isfinite()
    fits = fits & (q.abs() > 4 * info.tiny) & (q.double() * b.double() != a.double())
    return [torch.where(fits, a * (1 / b), q)]


def legal(graph: Graph, params: Mapping[str, np.ndarray]) -> Iterator[tuple[str, dict]]:
    """The outputs of each variation by its name; those that PyTorch cannot compute are left out."""
    given = {name: params[name] for name in (*graph.inputs, *graph.weights)}
    yield "as PyTorch does", _outputs(graph, execute(graph, tensors(given)))
    with np.errstate(all="ignore"):
        yield "in float64", _outputs(graph, reference(graph, given))
    for variation in VARIATIONS:
        try:
            with torch.inference_mode():
                yield variation.name, _outputs(graph, _run(graph, given, variation.kernel))
        except (RuntimeError, NotImplementedError):
            continue


def _run(graph: Graph, given: Mapping[str, np.ndarray], kernel: Kernel) -> dict[str, Tensor]:
    values = dict(tensors(given))
    for node in graph.nodes:
        ys = kernel(node, [values[n] for n in node.inputs])
        values.update((n, settled(y, graph.type(n).dtype)) for n, y in zip(node.outputs, ys))
    return values


def _outputs(graph: Graph, values: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    found = {}
    for name in graph.outputs:
        dtype = graph.type(name).dtype
        if dtype.is_float and values[name].dtype is torch.float64 and dtype is not DType.FLOAT64:
            found[name] = values[name].numpy().astype(dtype.numpy)
        else:
            found[name] = array(values[name], dtype)
    return found
