"""Shapes that broadcast by NumPy's rules, and shapes of matrix products: their batch dimensions
broadcast, and a vector operand has no M or no N."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from nnfuzz.ir.expr import Bool, Int, maximum, or_
from nnfuzz.operators.draw import Draw


def aligned(shapes: Sequence[Sequence[Int]]) -> list[list[Int]]:
    """Per axis of the broadcast result, innermost first: the dimensions of the shapes there."""
    places = itertools.zip_longest(*map(reversed, shapes))
    return [[dim for dim in dims if dim is not None] for dims in places]


def broadcast_shape(shapes: Sequence[Sequence[Int]]) -> tuple[Int, ...]:
    """The shape that compatible shapes broadcast to."""
    result = []
    for dims in aligned(shapes):
        out = dims[0]
        for dim in dims[1:]:
            out = wider(out, dim)
        result.append(out)
    return tuple(reversed(result))


def wider(a: Int, b: Int) -> Int:
    """The size that two compatible sizes broadcast to; sizes 1 and 0 give 0."""
    if a.__class__ is int and b.__class__ is int:
        return b if a == 1 else a
    return maximum(a, b)


def narrowed(draw: Draw, shape: Sequence[Int]) -> tuple[Int, ...]:
    """A random shape that broadcasts to `shape`; dimensions may be 1, or absent in front."""
    if draw.chance(0.5):
        return tuple(shape)
    kept = shape[draw.integer(0, len(shape)) :] if draw.chance(0.5) else shape
    return tuple(1 if draw.chance(0.25) else dim for dim in kept)


def partner_shape(draw: Draw, shape: Sequence[Int]) -> tuple[Int, ...]:
    """A random shape that broadcasts with `shape`; mostly narrower, sometimes of higher rank."""
    partner = narrowed(draw, shape)
    if len(partner) == len(shape) < 5 and draw.chance(0.1):
        partner = (draw.dim(len(shape) + 1), *partner)
    return partner


Shape = tuple[Int, ...]


def multiplies(a: Shape, b: Shape) -> Iterator[Bool]:
    """Conditions under which (*batch, M, K) @ (*batch, K, N) is defined."""
    yield a[-1] == b[-2 if len(b) > 1 else 0]
    for pair in aligned([a[:-2], b[:-2]]):
        if len(pair) == 2:
            yield or_(pair[0] == pair[1], pair[0] == 1, pair[1] == 1)


def product_shape(a: Shape, b: Shape) -> Shape:
    """(*batch, M, N), without M or N if that operand is a vector."""
    column = b[-1:] if len(b) > 1 else ()
    return (*broadcast_shape([a[:-2], b[:-2]]), *a[-2:-1], *column)


def right_factor(draw: Draw, a: Shape) -> Shape:
    """A random shape by which a tensor of shape `a` can be multiplied from the right."""
    if draw.chance(0.15):
        return a[-1:]
    batch = partner_shape(draw, a[:-2]) if draw.chance(0.7) else ()
    return (*batch[-3:], a[-1], draw.dim(len(batch) + 2))


def left_rank(draw: Draw, rank: int) -> int:
    """A rank of the left factor with which a product can have the given rank."""
    if rank < 2:
        return draw.choice((1, 2)) if rank else 1
    return rank + 1 if rank < 5 and draw.chance(0.15) else rank


def factor_shapes(draw: Draw, first: Shape, out: Shape) -> tuple[Shape, Shape]:
    """Shapes of factors whose product has shape `out`; the left one has the rank of `first`."""
    k = first[-1]
    if len(first) == len(out) + 1:
        return (*out, k), (k,)
    if len(first) == 1:
        return (k,), (*out[:-1], k, out[-1])
    batch = out[:-2]
    kept = tuple(1 if draw.chance(0.2) else d for d in batch)
    other = narrowed(draw, batch) if all(a is b for a, b in zip(kept, batch)) else batch
    return (*kept, out[-2], k), (*other, k, out[-1])
