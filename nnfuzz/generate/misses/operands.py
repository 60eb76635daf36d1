"""Near misses in the operands of a pattern: their order, shapes and origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnfuzz.generate.misses.call import (
    Call,
    Inserting,
    Kind,
    Outputs,
    fresh_input,
    like,
    rewired,
    same_shape,
)
from nnfuzz.ir.expr import Int
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.families.elementwise import Unary

TRIES = 4
"""How many operators are tried as an extra node."""
FACTORS = (2, 3)
"""Sizes of an axis along which an operand becomes larger than the others."""


def swapped(m: Inserting, call: Call) -> Outputs:
    """The first two operands are swapped, whether the operator commutes or not."""
    if len(call.operands) < 2 or call.operands[0] == call.operands[1]:
        return None
    first, second, *rest = call.operands
    return m.insert(replace(call, operands=(second, first, *rest)))


def doubled(m: Inserting, call: Call) -> Outputs:
    """The second operand is replaced by the first one."""
    if len(call.operands) < 2 or call.operands[0] == call.operands[1]:
        return None
    return m.insert(call.with_operand(1, call.operands[0]))


def operand_scalar(m: Inserting, call: Call) -> Outputs:
    """A weight becomes a scalar."""
    return _reshaped(m, call, ())


def operand_single(m: Inserting, call: Call) -> Outputs:
    """A weight becomes a single element, of rank 1 or of the other operand's rank."""
    first = like(m, call)
    rank = first.rank if first else 1
    return _reshaped(m, call, (1,) * m.draw.choice((1, max(rank, 1))))


def operand_row(m: Inserting, call: Call) -> Outputs:
    """A weight gets the size of the other operand's last axis as its only axis."""
    first = like(m, call)
    return _reshaped(m, call, first.shape[-1:]) if first and first.rank else None


def operand_whole(m: Inserting, call: Call) -> Outputs:
    """A weight becomes as large as the other operand."""
    first = like(m, call)
    return _reshaped(m, call, first.shape) if first else None


def operand_larger(m: Inserting, call: Call) -> Outputs:
    """A weight becomes larger than the other operand, along an axis of size 1 or a new first axis,
    so that the result grows, too."""
    first = like(m, call)
    if first is None:
        return None
    size, shape = m.draw.choice(FACTORS), first.shape
    ones = [i for i, dim in enumerate(shape) if dim.__class__ is int and dim == 1]
    if ones and m.draw.chance(0.5):
        i = m.draw.choice(ones)
        return _reshaped(m, call, (*shape[:i], size, *shape[i + 1 :]))
    return _reshaped(m, call, (size, *(1,) * len(shape)))


def operand_ranked(m: Inserting, call: Call) -> Outputs:
    """A weight gets a new first axis of size 1, or loses its first axis."""
    place = _weight(m, call)
    if place is None:
        return None
    shape = call.operands[place].shape  # type: ignore[union-attr]
    less = len(shape) > 1 and m.draw.chance(0.4)
    return _reshaped(m, call, shape[1:] if less else (1, *shape))


def operand_computed(m: Inserting, call: Call) -> Outputs:
    """A weight becomes a function of a weight."""
    place = _weight(m, call)
    if place is None:
        return None
    return rewired(m, call, place, unary(m, m.shared(call.operands[place])))  # type: ignore[arg-type]


def operand_input(m: Inserting, call: Call) -> Outputs:
    """A weight becomes an input of the model."""
    place = _weight(m, call)
    if place is None:
        return None
    return rewired(m, call, place, fresh_input(m, call.operands[place]))  # type: ignore[arg-type]


def unary(m: Inserting, name: str) -> str | None:
    """The result of a random unary operator on a value, with the same dtype; None if none fits."""
    for _ in range(TRIES):
        spec = m.catalog.pick(m.draw)
        if issubclass(spec, Unary):
            outputs = m.insert(Call(spec, (name,), {}))
            if outputs and m.type(outputs[0]).dtype is m.type(name).dtype:
                return outputs[0]
    return None


def _weight(m: Inserting, call: Call) -> int | None:
    """The position of an operand that is a weight; None if there is none."""
    places = call.places(TensorType)
    return m.draw.choice(places) if places else None


def _reshaped(m: Inserting, call: Call, shape: tuple[Int, ...]) -> Outputs:
    """A weight gets the given shape."""
    place = _weight(m, call)
    if place is None:
        return None
    type_ = call.operands[place]
    assert isinstance(type_, TensorType)
    return (
        None
        if same_shape(type_.shape, shape)
        else rewired(m, call, place, replace(type_, shape=shape))
    )


KINDS: Sequence[Kind] = (
    swapped,
    doubled,
    operand_scalar,
    operand_single,
    operand_row,
    operand_whole,
    operand_larger,
    operand_ranked,
    operand_computed,
    operand_input,
)
