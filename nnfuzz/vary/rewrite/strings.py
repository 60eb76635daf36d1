"""Integers that are strings for a while, in the model or at its ends: decimal numbers are the same
for every compiler.
"""

from __future__ import annotations

import random
from collections.abc import MutableSequence, Sequence

import numpy as np
import onnx

from nnfuzz.base.packed_values import PackedValue, PackingKind
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.vary.rewrite.draft import Draft, Kind, Nodes, models, values
from nnfuzz.vary.rewrite.operators import ints

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
    ways = ["reshape", *(["gather", "transpose", "slice", "concat"] if shape else [])]
    ways += ["where"] if emit.opset >= _EQUAL_SINCE else []
    ways += ["concatenated", "matched"] if emit.opset >= _TEXT_OPERATORS_SINCE else []
    way, axis = rng.choice(ways), rng.randrange(max(1, len(shape)))
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
    return emit.one("Reshape", emit.one("Reshape", text, ints(emit, -1)), ints(emit, *shape))


def _constant(emit: Nodes, text: str) -> str:
    """The name of a scalar string."""
    name = emit.const(np.int64(0), DType.INT64)
    string = onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING)
    string.string_data.append(text.encode())
    emit.initializers[-1] = string
    return name


@values(FAMILY, is_writable, since=SINCE, uses=["Cast"], kind=Kind.FORM)
def through_strings(emit: Nodes, name: str, type_: TensorType, rng: random.Random) -> str:
    """Integers -> Cast to strings, operators that move or compare strings, and Cast back: the
    decimal number of an integer is read as that integer."""
    text = emit.one("Cast", name, to=onnx.TensorProto.STRING)
    return emit.one("Cast", moved(emit, text, type_, rng), to=type_.dtype)


def _writable(draft: Draft, names: Sequence[str]) -> list[str]:
    """Names of integers that every compiler writes as the same decimal numbers. There are none if
    an input or output of the model has a dtype that NumPy lacks: bindings of compilers take such
    ones in other ways.
    """
    ends = [draft.types.get(name) for name in (*draft.inputs, *draft.outputs)]
    if draft.opset < SINCE or any(type_ and not type_.dtype.native for type_ in ends):
        return []
    return [name for name in names if name in draft.types and is_writable(draft.types[name])]


def _declare(
    draft: Draft, ends: MutableSequence[onnx.ValueInfoProto], name: str, text: str
) -> None:
    """Declares strings in place of an input or output, which becomes an inner value."""
    type_, place = draft.types[name], [value.name for value in ends].index(name)
    packed = PackedValue(PackingKind.TEXT, type_.dtype.value, {name: type_.sizes})
    draft.graph.value_info.append(ends[place])
    ends[place].CopyFrom(protos.value_info(text, type_))
    ends[place].type.tensor_type.elem_type = onnx.TensorProto.STRING
    ends[place].doc_string = packed.doc_string


def _computed(draft: Draft) -> list[str]:
    return _writable(draft, [name for name in draft.outputs if name in draft.makers])


@models("string outputs", _computed, uses=["Cast"], kind=Kind.ENDS)
def text_output(draft: Draft, site: str, rng: random.Random) -> None:
    """An output of integers -> an output of strings, the decimal numbers that Cast writes."""
    emit, type_ = draft.emitter(), draft.types[site]
    text = moved(emit, emit.one("Cast", site, to=onnx.TensorProto.STRING), type_, rng)
    _declare(draft, draft.graph.output, site, text)
    draft.put(len(draft.graph.node), emit)


@models(
    "string inputs", lambda draft: _writable(draft, draft.inputs), uses=["Cast"], kind=Kind.ENDS
)
def text_input(draft: Draft, site: str, rng: random.Random) -> None:
    """An input of integers -> an input of strings, their decimal numbers, which Cast reads."""
    emit, text, type_ = draft.emitter(), draft.fresh("text"), draft.types[site]
    emit.one("Cast", moved(emit, text, type_, rng), to=type_.dtype)
    emit.nodes[-1].output[0] = site
    _declare(draft, draft.graph.input, site, text)
    draft.put(0, emit)


RULES = (through_strings, text_output, text_input)
