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


def _written(axis: int, rank: int, rng: random.Random) -> int:
    """An axis, counted from the front or from the back."""
    return axis - rank if rng.random() < 0.3 else axis


def ints(emit: Nodes, *numbers: int) -> str:
    return emit.const([*numbers], DType.INT64)


@values(FAMILY, of(_PLAIN), uses=["Identity"])
def identity(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Identity(x): the same value by definition."""
    return emit.one("Identity", x)


@values(FAMILY, of(_PLAIN, rank=2), uses=["Transpose"])
def transpose_pair(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Transpose(Transpose(x, p), q), q being the inverse of p: every element returns."""
    perm = rng.sample(range(type_.rank), type_.rank)
    back = [perm.index(axis) for axis in range(type_.rank)]
    return emit.one("Transpose", emit.one("Transpose", x, perm=perm), perm=back)


@values(FAMILY, of(_PLAIN, rank=1), uses=["Reshape"])
def reshape_flat(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Reshape(Reshape(x, flat), shape of x): the order of elements stays at every step."""
    flat = rng.choice([(-1,), (type_.elements,), (1, type_.elements), (type_.sizes[0], -1)])
    back = list(type_.sizes)
    if rng.random() < 0.3:
        back[rng.randrange(len(back))] = -1
    return emit.one("Reshape", emit.one("Reshape", x, ints(emit, *flat)), ints(emit, *back))


@values(FAMILY, of(_PLAIN), uses=["Unsqueeze", "Squeeze"])
def unsqueeze_squeeze(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Squeeze(Unsqueeze(x, axis), axis): a dimension of 1 comes and goes."""
    axis = _written(rng.randint(0, type_.rank), type_.rank + 1, rng)
    axes = ints(emit, axis)
    return emit.one("Squeeze", emit.one("Unsqueeze", x, axes), axes)


@values(FAMILY, of(_PLAIN, rank=1, extent=2), uses=["Split", "Concat"])
def split_concat(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Concat of the parts of Split(x), in their order, along the same axis."""
    axis = _axis(type_, rng, 2)
    size = type_.sizes[axis]
    cuts = sorted(rng.sample(range(1, size), rng.randint(1, min(3, size - 1))))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size])]
    parts = emit.several(
        "Split", len(sizes), x, ints(emit, *sizes), axis=_written(axis, type_.rank, rng)
    )
    return emit.one("Concat", *parts, axis=_written(axis, type_.rank, rng))


@values(FAMILY, of((*_REALS, DType.INT64), rank=1), uses=["Pad", "Slice"])
def slice_of_pad(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Slice(Pad(x)), which takes away exactly what Pad has put around x."""
    before = [rng.randint(0, 2) for _ in type_.sizes]
    after = [rng.randint(0, 2) for _ in type_.sizes]
    modes = ["constant", "edge"]
    if all(max(b, a) < size for b, a, size in zip(before, after, type_.sizes)):
        modes.append("reflect")
    mode = rng.choice(modes)
    fill = [emit.const(rng.choice([0, 1, -3]), type_.dtype)] if mode == "constant" else []
    padded = emit.one("Pad", x, ints(emit, *before, *after), *fill, mode=mode)
    ends = [b + size for b, size in zip(before, type_.sizes)]
    axes = ints(emit, *range(type_.rank))
    return emit.one("Slice", padded, ints(emit, *before), ints(emit, *ends), axes)


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


@values(FAMILY, of(_PLAIN, rank=1), uses=["Gather"])
def gather_all(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Gather(x, 0 ... n-1) along an axis of size n; -n ... -1 are the same indices."""
    axis = _axis(type_, rng)
    size = type_.sizes[axis]
    start = -size if rng.random() < 0.3 else 0
    indices = emit.const(np.arange(start, start + size), rng.choice([DType.INT64, DType.INT32]))
    return emit.one("Gather", x, indices, axis=axis)


@values(FAMILY, of(_PLAIN, rank=1), uses=["Expand"])
def expand_same(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Expand(x, shape of x), or with 1 for any of its sizes: broadcasting keeps x's."""
    sizes = [1 if rng.random() < 0.4 else size for size in type_.sizes]
    return emit.one("Expand", x, ints(emit, *sizes))


@values(FAMILY, of(_PLAIN, rank=1), uses=["Tile"])
def tile_once(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Tile(x, 1 for each axis): one copy."""
    return emit.one("Tile", x, ints(emit, *([1] * type_.rank)))


@values(FAMILY, of(tuple(_WIDER)), uses=["Cast"])
def cast_wider(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> x cast to a type that holds every value of x's type, and back: both casts are exact."""
    wider = rng.choice(_WIDER[type_.dtype])
    return emit.one("Cast", emit.one("Cast", x, to=wider), to=type_.dtype)


@values(FAMILY, of(_NUMBERS), uses=["Mul", "Div"])
def times_one(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> x * 1 or x / 1: exact in IEEE arithmetic and in integers, signs of zeros included."""
    one = emit.const(_ones(type_, rng, 1), type_.dtype)
    if rng.random() < 0.3:
        return emit.one("Div", x, one)
    return emit.one("Mul", *rng.sample([x, one], 2))


@values(FAMILY, of(_NUMBERS), uses=["Add", "Sub"])
def plus_zero(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> x + (-0.0) or x - 0.0, which keep -0.0 as x + 0.0 does not; x + 0 for integers."""
    if rng.random() < 0.5:
        return emit.one("Sub", x, emit.const(_ones(type_, rng, 0), type_.dtype))
    zero = emit.const(_ones(type_, rng, -0.0 if type_.dtype.is_float else 0), type_.dtype)
    return emit.one("Add", *rng.sample([x, zero], 2))


def _ones(type_: TensorType, rng: random.Random, number: float) -> np.ndarray:
    """A number as a constant: a scalar, or in a shape that broadcasts to that of the type."""
    shape = type_.sizes[rng.randint(0, type_.rank) :]
    return np.full([size if rng.random() < 0.5 else 1 for size in shape], number)


@values(FAMILY, of(_REALS), uses=["Neg"])
def negated_twice(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> -(-x): IEEE negation flips the sign bit alone."""
    return emit.one("Neg", emit.one("Neg", x))


@values(FAMILY, of(_NUMBERS), uses=["Max", "Min"])
def max_of_same(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Max(x, x) or Min(x, x), of up to three: the largest of equals is x."""
    return emit.one(rng.choice(["Max", "Min"]), *[x] * rng.randint(2, 3))


@values(FAMILY, of(_REALS), uses=["Sum", "Max", "Min"])
def variadic_alone(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Sum(x), Max(x) or Min(x): a variadic operator of one input is that input."""
    return emit.one(rng.choice(["Sum", "Max", "Min"]), x)


@values(FAMILY, of(_NUMBERS), uses=["Where"])
def where_same(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Where(c, x, x): whatever c is, x is chosen."""
    shape = [size if rng.random() < 0.7 else 1 for size in type_.sizes]
    drawn = np.random.default_rng(rng.getrandbits(32)).integers(0, 2, shape)
    return emit.one("Where", emit.const(drawn, DType.BOOL), x, x)


@values(FAMILY, of(_NUMBERS), uses=["Where"])
def where_never(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Where(true, x, y) or Where(false, y, x) for a constant y: x is chosen."""
    chosen = rng.random() < 0.5
    condition = emit.const(np.full([1] * rng.randint(0, type_.rank), chosen), DType.BOOL)
    other = emit.const(rng.randint(0, 1), type_.dtype)
    return emit.one("Where", condition, *([x, other] if chosen else [other, x]))


@values(FAMILY, of((DType.BOOL,)), uses=["Not", "And", "Or", "Xor"])
def boolean_identity(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> not not x, x and x, x or x, x and true, x or false, x xor false."""
    what = rng.randrange(6)
    if what == 0:
        return emit.one("Not", emit.one("Not", x))
    if what < 3:
        return emit.one(["And", "Or"][what - 1], x, x)
    operator = ["And", "Or", "Xor"][what - 3]
    return emit.one(operator, x, emit.const(operator == "And", DType.BOOL))


@values(FAMILY, of((*_REALS, DType.INT32, DType.INT64)), uses=["Clip"])
def clip_open(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Clip(x) without bounds, or with bounds that no number of its type exceeds: the
    infinities of floats, the largest and smallest integer."""
    limits = (-np.inf, np.inf) if type_.dtype.is_float else type_.dtype.limits
    bounds = [emit.const(v, type_.dtype) if rng.random() < 0.5 else "" for v in limits]
    return emit.one("Clip", x, *bounds)


@values(FAMILY, of((DType.FLOAT32,), rank=1), uses=["Dropout"])
def dropout_inference(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Dropout(x) without training, whatever its ratio: ONNX defines it as x."""
    ratio = [emit.const(rng.choice([0.0, 0.5, 0.9]), DType.FLOAT32)] if rng.random() < 0.7 else []
    if rng.random() < 0.5:
        return emit.one("Dropout", x, *ratio)
    return emit.several("Dropout", 2, x, *ratio)[0]


@values(FAMILY, of(_PLAIN, rank=2), uses=["Flatten", "Reshape"])
def flatten_back(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Reshape(Flatten(x, axis), shape of x): both keep the order of elements."""
    flat = emit.one("Flatten", x, axis=rng.randint(0, type_.rank))
    return emit.one("Reshape", flat, ints(emit, *type_.sizes))


@values(FAMILY, of(_REALS, rank=1), uses=["ScatterND"])
def scatter_same(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> x with one of its slices along the first axis, read by Gather, written to its place."""
    row = rng.randrange(type_.sizes[0])
    slice_ = emit.one("Gather", x, ints(emit, row), axis=0)
    return emit.one("ScatterND", x, emit.const([[row]], DType.INT64), slice_)


RULES = (
    identity, transpose_pair, reshape_flat, unsqueeze_squeeze, split_concat, slice_of_pad,
    reverse_twice, slice_of_concat, gather_all, expand_same, tile_once, cast_wider, times_one,
    plus_zero, negated_twice, max_of_same, variadic_alone, where_same, where_never,
    boolean_identity, clip_open, dropout_inference, flatten_back, scatter_same,
)  # fmt: skip
