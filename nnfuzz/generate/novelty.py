"""Rejection of vertices that the graph already has, or that are drawn often (after GenCoG).

A vertex is an operator with its attributes and the types of its inputs. A test case depends on
nothing but its seed, index and configuration, so earlier test cases are unknown. But the
distribution of the draws tells which vertices repeat: a Relu of a float32 scalar is one of a few
hundred vertices, one of a tensor of rank 4 is hardly ever drawn twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec

REJECTED = 0.9
"""Probability of rejecting a vertex that the graph already has."""
HORIZON = 15.6
"""Bits of information. A vertex with fewer would occur more than once in 2^15.6 (50,000) draws; its
surplus draws are rejected."""
MOST = 0.99
"""The largest probability of rejection, so that operators of scalars alone still occur."""
RANK_BITS = 2.5
DIM_BITS = 2.8
"""Information of a dimension: its bin (`Draw.binned`) is one of seven."""
OTHER_BITS = 0.5
"""Information of a further input, whose type mostly follows from that of the first."""
CHOICE_BITS = 1.0
REAL_BITS = 6.0


Vertex = tuple[Any, ...]


def vertex(op: OpSpec, types: Iterable[TensorType]) -> Vertex:
    """A key that equal vertices of one graph share; bodies are never equal."""
    own = op.__dict__
    return type(op), *[own[name] for name in op.declared], *[(t.dtype, t.shape) for t in types]


def surprise(op: OpSpec, types: Sequence[TensorType]) -> float:
    """The approximate information in bits of a vertex, given its operator signature.

    That is -log2 of the probability that another draw gives the same vertex.
    """
    bits = RANK_BITS + OTHER_BITS * (len(types) - 1)
    for dim in types[0].shape if types else ():
        if dim.__class__ is not int:
            return math.inf
        bits += DIM_BITS + dim.bit_length() - 1
    for name in op.declared:
        bits += _of_attribute(op.__dict__[name])
    return bits


def rejects(draw: Draw, op: OpSpec, types: Sequence[TensorType], bits: float) -> bool:
    """Whether to reject a vertex because many graphs have it. bits: information of the
    signature."""
    rank = len(types[0].shape) if types else 0
    if bits + RANK_BITS + DIM_BITS * rank >= HORIZON:
        return False
    left = HORIZON - bits - surprise(op, types)
    return left > 0 and draw.chance(min(MOST, 1 - 2**-left))


def _of_attribute(value: Any) -> float:
    if value.__class__ is int:
        return 1.0 + abs(value).bit_length()
    if isinstance(value, tuple):
        return sum(map(_of_attribute, value))
    return REAL_BITS if isinstance(value, float) else CHOICE_BITS
