"""Rejection of vertices that the graph has already, or that are drawn often (GenCoG).

A vertex is an operator with its attributes and the types of its inputs. Earlier test cases are
unknown, since a test case is a function of its seed, index and configuration, but the distribution
of the draws tells which vertices repeat: a Relu of a float32 scalar is one of a few hundred
vertices, one of a tensor of rank 4 is hardly ever drawn twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec

REJECTED = 0.9
"""Probability that a vertex is rejected that the graph has already."""
HORIZON = 15.6
"""Vertices, as a power of two (50,000), among which each is wanted once."""
MOST = 0.99
"""The largest probability of rejection: operators of scalars alone must not starve."""
RANK_BITS = 2.5
DIM_BITS = 2.8
"""Of the bin of a dimension (nnfuzz.operators.draw.Draw.binned), one of seven."""
OTHER_BITS = 0.5
"""Of a further input, whose type mostly follows from that of the first one."""
CHOICE_BITS = 1.0
REAL_BITS = 6.0


Vertex = tuple[Any, ...]


def vertex(op: OpSpec, types: Iterable[TensorType]) -> Vertex:
    """A key that equal vertices of one graph share; bodies are never equal."""
    own = op.__dict__
    return type(op), *[own[name] for name in op.declared], *[(t.dtype, t.shape) for t in types]


def surprise(op: OpSpec, types: Sequence[TensorType]) -> float:
    """The information of a vertex of an operator signature in bits, approximately.

    That is the negative binary logarithm of the probability that another draw is the same one.
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
    """Whether a vertex of a signature is rejected because its information is low."""
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
