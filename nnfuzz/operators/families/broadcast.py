"""Shapes that broadcast with NumPy's rules."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from nnfuzz.ir.expr import Int, maximum
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
