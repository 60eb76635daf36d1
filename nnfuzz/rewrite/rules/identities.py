"""Rules that insert operators which give a value back unchanged."""

from __future__ import annotations

import random

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.rewrite.draft import Nodes
from nnfuzz.rewrite.rule import Admits, values

FAMILY = "identities"
MOST_ELEMENTS = 1 << 16  # of a value that is copied several times
_REALS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
_NUMBERS = (*_REALS, DType.INT32, DType.INT64)
_PLAIN = (*_NUMBERS, DType.BOOL)
MOVED = (*_PLAIN, DType.INT8, DType.UINT8)
"""Dtypes whose tensors can be sliced, concatenated and reshaped at every opset."""
_WIDER = {
    DType.FLOAT16: (DType.FLOAT32, DType.FLOAT64),
    DType.FLOAT32: (DType.FLOAT64,),
    DType.BFLOAT16: (DType.FLOAT32,),
    DType.INT8: (DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32),
    DType.UINT8: (DType.INT32, DType.INT64, DType.FLOAT32),
    DType.INT16: (DType.INT32, DType.FLOAT32),
    DType.INT32: (DType.INT64, DType.FLOAT64),
    DType.BOOL: (DType.UINT8, DType.INT32, DType.INT64, DType.FLOAT32),
}


def of(dtypes: tuple[DType, ...], rank: int = 0, extent: int = 0) -> Admits:
    """Admits types of these dtypes and at least `rank` dimensions, one of at least `extent`."""

    def admits(type_: TensorType) -> bool:
        sized = not extent or max(type_.sizes, default=0) >= extent
        small = type_.elements <= MOST_ELEMENTS
        return type_.dtype in dtypes and type_.rank >= rank and sized and small

    return admits


def _axis(type_: TensorType, rng: random.Random, extent: int = 1) -> int:
    return rng.choice([i for i, size in enumerate(type_.sizes) if size >= extent])


def ints(emit: Nodes, *numbers: int) -> str:
    return emit.const([*numbers], DType.INT64)


@values(FAMILY, of(_PLAIN, rank=2), uses=["Transpose"])
def transpose_pair(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Transpose(Transpose(x, p), q), q being the inverse of p: every element returns."""
    perm = rng.sample(range(type_.rank), type_.rank)
    back = [perm.index(axis) for axis in range(type_.rank)]
    return emit.one("Transpose", emit.one("Transpose", x, perm=perm), perm=back)


@values(FAMILY, of(_PLAIN, rank=1, extent=2), uses=["Slice"])
def reverse_twice(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> x reversed along an axis, twice: a Slice with step -1 is its own inverse."""
    axis = ints(emit, _axis(type_, rng, 2))
    for _ in range(2):
        last, past = ints(emit, -1), ints(emit, -(1 << 31) if rng.random() < 0.5 else -(1 << 62))
        x = emit.one("Slice", x, last, past, axis, ints(emit, -1))
    return x


@values(FAMILY, of(_PLAIN, rank=1), uses=["Concat", "Slice"])
def slice_of_concat(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> one half of Concat(x, x): either half is x."""
    axis = _axis(type_, rng)
    size, half = type_.sizes[axis], rng.randint(0, 1)
    both = emit.one("Concat", x, x, axis=axis)
    start, end = ints(emit, half * size), ints(emit, (half + 1) * size)
    return emit.one("Slice", both, start, end, ints(emit, axis))


@values(FAMILY, of(_PLAIN, rank=1), uses=["Expand"])
def expand_same(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Expand(x, shape of x), or with 1 for any of its sizes: broadcasting keeps x's."""
    sizes = [1 if rng.random() < 0.4 else size for size in type_.sizes]
    return emit.one("Expand", x, ints(emit, *sizes))


@values(FAMILY, of(tuple(_WIDER)), uses=["Cast"])
def cast_wider(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> x cast to a type that holds every value of x's type, and back: both casts are exact."""
    wider = rng.choice(_WIDER[type_.dtype])
    return emit.one("Cast", emit.one("Cast", x, to=wider), to=type_.dtype)


@values(FAMILY, of(_NUMBERS), uses=["Mul", "Div"])
def times_one(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> x * 1 or x / 1: exact in IEEE arithmetic and in integers, signs of zeros included."""
    shape = type_.sizes[rng.randint(0, type_.rank) :]  # a scalar, or it broadcasts
    ones = np.full([size if rng.random() < 0.5 else 1 for size in shape], 1)
    one = emit.const(ones, type_.dtype)
    if rng.random() < 0.3:
        return emit.one("Div", x, one)
    return emit.one("Mul", *rng.sample([x, one], 2))


@values(FAMILY, of(_NUMBERS), uses=["Where"])
def where_never(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Where(true, x, y) or Where(false, y, x) for a constant y: x is chosen."""
    chosen = rng.random() < 0.5
    condition = emit.const(np.full([1] * rng.randint(0, type_.rank), chosen), DType.BOOL)
    other = emit.const(rng.randint(0, 1), type_.dtype)
    return emit.one("Where", condition, *([x, other] if chosen else [other, x]))


@values(FAMILY, of((DType.FLOAT32,), rank=1), uses=["Dropout"])
def dropout_inference(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Dropout(x) without training, whatever its ratio: ONNX defines it as x."""
    ratio = [emit.const(rng.choice([0.0, 0.5, 0.9]), DType.FLOAT32)] if rng.random() < 0.7 else []
    if rng.random() < 0.5:
        return emit.one("Dropout", x, *ratio)
    return emit.several("Dropout", 2, x, *ratio)[0]


RULES = (
    transpose_pair, reverse_twice, slice_of_concat, expand_same, cast_wider, times_one,
    where_never, dropout_inference,
)  # fmt: skip
