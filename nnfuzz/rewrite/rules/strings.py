"""Integers that are strings for a while: decimal numbers are the same for every compiler."""

from __future__ import annotations

import random

import numpy as np
import onnx

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.rewrite.draft import Nodes
from nnfuzz.rewrite.rule import values
from nnfuzz.rewrite.rules.identities import ints

FAMILY = "strings"
WHOLE_NUMBERS = (DType.INT32, DType.INT64, DType.INT16, DType.INT8, DType.UINT8)
MOST_ELEMENTS = 1 << 10
SINCE = 13
"""The opset from which on nodes are written as here."""
_EQUAL_SINCE, _TEXT_OPERATORS_SINCE = 19, 20


def is_writable(type_: TensorType) -> bool:
    """Whether it is of a few integers."""
    return type_.dtype in WHOLE_NUMBERS and 0 < type_.elements <= MOST_ELEMENTS


def moved(emit: Nodes, text: str, type_: TensorType, rng: random.Random) -> str:
    """The same strings after up to three operators that compute or move strings.

    type_: of the numbers that are written; opset SINCE or later.
    """
    for _ in range(rng.randint(0, 3)):
        text = _step(emit, text, type_, rng)
    return text


def _step(emit: Nodes, text: str, type_: TensorType, rng: random.Random) -> str:
    shape = list(type_.sizes)
    ways = ["identity", "reshape", "expand"]
    ways += ["gather", "transpose", "slice", "concat"] if shape else []
    ways += ["where"] if emit.opset >= _EQUAL_SINCE else []
    ways += ["concatenated", "matched"] if emit.opset >= _TEXT_OPERATORS_SINCE else []
    ways += ["normalised"] if len(shape) == 1 else []
    way, axis = rng.choice(ways), rng.randrange(max(1, len(shape)))
    if way == "reshape":
        return emit.one("Reshape", emit.one("Reshape", text, ints(emit, -1)), ints(emit, *shape))
    if way == "expand":
        return emit.one("Expand", text, ints(emit, *shape))
    if way == "gather":
        return emit.one("Gather", text, ints(emit, *range(shape[axis])), axis=axis)
    if way == "transpose":
        order = rng.sample(range(len(shape)), len(shape))
        turned = emit.one("Transpose", text, perm=order)
        return emit.one("Transpose", turned, perm=[order.index(i) for i in range(len(shape))])
    if way == "slice":
        ends = (ints(emit, 0), ints(emit, shape[axis]), ints(emit, axis))
        return emit.one("Slice", text, *ends)
    if way == "concat":
        twice = emit.one("Concat", text, text, axis=axis)
        return emit.one("Slice", twice, ints(emit, 0), ints(emit, shape[axis]), ints(emit, axis))
    if way == "where":
        return emit.one("Where", emit.one("Equal", text, text), text, _constant(emit, "0"))
    if way == "concatenated":
        return emit.one("StringConcat", text, _constant(emit, ""))
    if way == "matched":
        fits = emit.one("RegexFullMatch", text, pattern="-?[0-9]+")
        return emit.one("Where", fits, text, _constant(emit, "0"))
    if way == "normalised":
        return emit.one("StringNormalizer", text, case_change_action="NONE")
    return emit.one("Identity", text)


def _constant(emit: Nodes, text: str) -> str:
    """The name of a scalar string."""
    name = emit.const(np.int64(0), DType.INT64)
    string = onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING)
    string.string_data.append(text.encode())
    emit.initializers[-1] = string
    return name


@values(FAMILY, is_writable, uses=["Cast"], since=SINCE)
def through_strings(emit: Nodes, name: str, type_: TensorType, rng: random.Random) -> str:
    """Integers -> Cast to strings, operators that move or compare strings, and Cast back: the
    decimal number of an integer is read as that integer."""
    text = emit.one("Cast", name, to=onnx.TensorProto.STRING)
    return emit.one("Cast", moved(emit, text, type_, rng), to=type_.dtype)


RULES = (through_strings,)
