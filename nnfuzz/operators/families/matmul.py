"""Shapes of matrix products with NumPy's rules: batches broadcast, a vector lacks its M or N."""

from __future__ import annotations

from collections.abc import Iterator

from nnfuzz.ir.expr import Bool, Int, or_
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.broadcast import aligned, broadcast_shape, narrowed, partner_shape

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
