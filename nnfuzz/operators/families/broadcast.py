"""Shapes that broadcast with NumPy's rules, and those of matrix products: batches broadcast, a
vector lacks its M or N.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from nnfuzz.ir.expr import Bool, Int, maximum, or_
from nnfuzz.operators.draw import Draw


def aligned(shapes: Sequence[Sequence[Int]]) -> list[list[Int]]:
    """The dimensions that broadcasting lines up, innermost first; ranks may differ."""
    places = itertools.zip_longest(*map(reversed, shapes))
    return [[dim for dim in dims if dim is not None] for dims in places]


def broadcast_shape(shapes: Sequence[Sequence[Int]]) -> tuple[Int, ...]:
    """The shape that shapes broadcast to; they must be compatible."""
    result = []
    for dims in aligned(shapes):
        out = dims[0]
        for dim in dims[1:]:
            out = wider(out, dim)
        result.append(out)
    return tuple(reversed(result))


def wider(a: Int, b: Int) -> Int:
    """The size that two compatible sizes broadcast to: 1 yields to any other, also to 0."""
    if a.__class__ is int and b.__class__ is int:
        return b if a == 1 else a
    return maximum(a, b)


def narrowed(draw: Draw, shape: Sequence[Int]) -> tuple[Int, ...]:
    """A shape that broadcasts to `shape`: some dimensions 1, some leading ones absent."""
    if draw.chance(0.5):
        return tuple(shape)
    kept = shape[draw.integer(0, len(shape)) :] if draw.chance(0.5) else shape
    return tuple(1 if draw.chance(0.25) else dim for dim in kept)


def partner_shape(draw: Draw, shape: Sequence[Int]) -> tuple[Int, ...]:
    """A shape compatible with `shape`, narrower mostly, of higher rank sometimes."""
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
    """(*batch, M, N) without the axes that a vector lacks."""
    column = b[-1:] if len(b) > 1 else ()
    return (*broadcast_shape([a[:-2], b[:-2]]), *a[-2:-1], *column)


def right_factor(draw: Draw, a: Shape) -> Shape:
    """A shape that `a` can be multiplied by from the right."""
    if draw.chance(0.15):
        return a[-1:]
    batch = partner_shape(draw, a[:-2]) if draw.chance(0.7) else ()
    return (*batch[-3:], a[-1], draw.dim(len(batch) + 2))


def left_rank(draw: Draw, rank: int) -> int:
    """The rank of the left factor of a product of that rank."""
    if rank < 2:
        return draw.choice((1, 2)) if rank else 1
    return rank + 1 if rank < 5 and draw.chance(0.15) else rank


def factor_shapes(draw: Draw, first: Shape, out: Shape) -> tuple[Shape, Shape]:
    """Shapes of factors with the product `out`; the left one has the rank of `first`."""
    k = first[-1]
    if len(first) == len(out) + 1:
        return (*out, k), (k,)
    if len(first) == 1:
        return (k,), (*out[:-1], k, out[-1])
    batch = out[:-2]
    kept = tuple(1 if draw.chance(0.2) else d for d in batch)
    other = narrowed(draw, batch) if all(a is b for a, b in zip(kept, batch)) else batch
    return (*kept, out[-2], k), (*other, k, out[-1])
