"""Near misses around an operator of a pattern: extra nodes, extra readers, missing nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nnfuzz.generate.misses.call import (
    Call,
    Inserting,
    Kind,
    Outputs,
    behind,
    inserted,
    rewired,
    same_type,
)
from nnfuzz.generate.misses.operands import unary
from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.motif import Operand
from nnfuzz.operators.operator import OpSpec

SCALES = (0.05, 1 / 64, 0.25)
"""Scales of a bias that is stored as integers."""
STORED = 100
"""The greatest integer in such a bias."""


def identity(m: Inserting, call: Call) -> Outputs:
    """An Identity is inserted before or after the operator."""
    return _between(m, call, "Identity")


def dropout(m: Inserting, call: Call) -> Outputs:
    """A Dropout that drops nothing is inserted before or after the operator."""
    return _between(m, call, "Dropout", mask=False)


def cast_to_same(m: Inserting, call: Call) -> Outputs:
    """A Cast to the same dtype is inserted before or after the operator."""
    return _between(m, call, "Cast", to=lambda type_: type_.dtype)


def cast_and_back(m: Inserting, call: Call) -> Outputs:
    """Two Casts, to another float dtype and back, are inserted after the operator."""
    outputs = m.insert(call)
    if not outputs or m.type(outputs[0]).dtype not in FLOATS:
        return None
    dtype = m.type(outputs[0]).dtype
    other = m.draw.choice([d for d in FLOATS if d is not dtype])
    there = inserted(m, "Cast", outputs[0], to=other)
    return behind(outputs, there and inserted(m, "Cast", there, to=dtype))


def reshape_to_same(m: Inserting, call: Call) -> Outputs:
    """A Reshape to the same shape is inserted before or after the operator."""
    return _between(m, call, "Reshape", shape=lambda type_: type_.shape)


def transpose_to_same(m: Inserting, call: Call) -> Outputs:
    """A Transpose that keeps the order of axes is inserted before or after the operator."""
    return _between(m, call, "Transpose", perm=lambda type_: tuple(range(type_.rank)))


def joined_alone(m: Inserting, call: Call) -> Outputs:
    """A Concat of a single tensor is inserted before or after the operator."""
    return _between(m, call, "Concat", axis=0)


def unsqueezed(m: Inserting, call: Call) -> Outputs:
    """An operand or the result gets a new first axis of size 1."""
    return _between(m, call, "Unsqueeze", axes=(0,))


def twice(m: Inserting, call: Call) -> Outputs:
    """An equal operator reads the same operands, and both results are read or returned."""
    outputs = m.insert(call)
    if not outputs:
        return None
    node = m.growth.graph.nodes[-1]
    if outputs != node.outputs:
        return None
    if m.draw.chance(0.5):
        m.growth.exposed.update(outputs[:1])
    kept = {name: value for name, value in node.op.attributes.items() if name in call.spec.declared}
    return outputs if m.insert(Call(call.spec, node.inputs, kept)) else None


def function_between(m: Inserting, call: Call) -> Outputs:
    """A unary operator is inserted after the operator."""
    outputs = m.insert(call)
    return behind(outputs, unary(m, outputs[0])) if outputs else None


def second_reader(m: Inserting, call: Call) -> Outputs:
    """The result gets a second reader."""
    outputs = m.insert(call)
    return outputs if outputs and unary(m, outputs[0]) else None


def exposed(m: Inserting, call: Call) -> Outputs:
    """The result becomes an output of the model, even if it has readers."""
    outputs = m.insert(call)
    m.growth.exposed.update((outputs or ())[:1])
    return outputs


def sibling(m: Inserting, call: Call) -> Outputs:
    """The operator is replaced by one of its family; not for data movement, whose shapes differ."""
    bases = call.spec.__bases__
    if issubclass(call.spec, DataMovement) or bases == (OpSpec,):
        return None
    family = [s for s in m.catalog.signatures if s.__bases__ == bases and s is not call.spec]
    if not family:
        return None
    spec = m.draw.choice(family)
    kept = {n: v for n, v in call.attributes.items() if n in spec.declared}
    return m.insert(replace(call, spec=spec, attributes=kept))


def left_out(m: Inserting, call: Call) -> Outputs:
    """The operator is left out, if its result has the type of an operand (a bias, for example)."""
    mark = m.growth.mark()
    outputs = m.insert(call)
    if not outputs:
        return None
    result = m.type(outputs[0])
    m.growth.restore(mark)
    same = [o for o in call.operands if isinstance(o, str) and same_type(m.type(o), result)]
    return (same[0], *outputs[1:]) if same and len(outputs) == 1 else None


def bias_added(m: Inserting, call: Call) -> Outputs:
    """A bias is added to the result: a row, a column, of higher rank, or of the same shape."""
    outputs = m.insert(call)
    if not outputs or m.type(outputs[0]).dtype not in FLOATS:
        return None
    type_ = m.type(outputs[0])
    shape = type_.shape
    shapes = [shape, shape[-1:], (1, *shape[-1:]), (*shape[1:2], *(1,) * (len(shape) - 2))]
    bias: Operand = replace(type_, shape=m.draw.choice(shapes))
    pair = (outputs[0], bias) if m.draw.chance(0.7) else (bias, outputs[0])
    return behind(outputs, inserted(m, "Add", *pair))


def bias_quantised(m: Inserting, call: Call) -> Outputs:
    """The result of a DequantizeLinear of int32 constants, a bias, is added to the result."""
    outputs = m.insert(call)
    if not outputs or m.type(outputs[0]).dtype not in FLOATS or not m.type(outputs[0]).rank:
        return None
    type_ = m.type(outputs[0])
    stored = m.shared(TensorType(DType.INT32, type_.shape[-1:]), -STORED, STORED)
    scale = m.shared(replace(type_, shape=()), m.draw.choice(SCALES))
    bias = inserted(m, "DequantizeLinear", stored, scale)
    return behind(outputs, bias and inserted(m, "Add", outputs[0], bias))


def _between(m: Inserting, call: Call, operator: str, **attributes: Any) -> Outputs:
    """An operator is inserted before an operand or after the result.

    attributes: values, or functions that compute a value from the type of the operator's input.
    """

    def through(name: str) -> str | None:
        given = {n: v(m.type(name)) if callable(v) else v for n, v in attributes.items()}
        return inserted(m, operator, name, **given)

    places = call.places(str)
    if places and m.draw.chance(0.5):
        place = m.draw.choice(places)
        return rewired(m, call, place, through(call.operands[place]))  # type: ignore[arg-type]
    outputs = m.insert(call)
    return behind(outputs, through(outputs[0])) if outputs else None


KINDS: Sequence[Kind] = (
    identity,
    dropout,
    cast_to_same,
    cast_and_back,
    reshape_to_same,
    transpose_to_same,
    joined_alone,
    unsqueezed,
    twice,
    function_between,
    second_reader,
    exposed,
    sibling,
    left_out,
    bias_added,
    bias_quantised,
)
