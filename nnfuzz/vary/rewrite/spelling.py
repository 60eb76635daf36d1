"""Rules that write attributes, axes and optional operands differently, or integers as strings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from functools import cache
from typing import TypeVar

import numpy as np
import onnx
from onnx import AttributeProto, defs, helper

from nnfuzz.base.packed_values import PackedValue, PackingKind
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.vary.rewrite.draft import Draft, Kind, Nodes, attributes, models, nodes, values
from nnfuzz.vary.rewrite.operators import ints

T = TypeVar("T")

FAMILY = "spelling"
IMPLIED = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
"""Attributes of windows, and the value per axis that they have if absent."""
INFERRED = frozenset("Conv ConvTranspose ConvInteger QLinearConv DeformConv".split())
"""Operators whose kernel_shape follows from their weights."""
WINDOWS = INFERRED | frozenset("MaxPool AveragePool LpPool Col2Im MaxUnpool".split())


def _ordinary(draft: Draft) -> Iterator[onnx.NodeProto]:
    """Nodes of ai.onnx, except those whose attributes exclude each other."""
    own = (node for node in draft.graph.node if node.domain in ("", "ai.onnx"))
    return (node for node in own if node.op_type not in ("Constant", "ConstantOfShape"))


@cache
def _defaults(op: str, opset: int) -> Mapping[str, AttributeProto]:
    """The attributes of an operator that have a default in ONNX, by name."""
    try:
        known = defs.get_schema(op, opset, "").attributes
    except defs.SchemaError:
        return {}
    return {n: a.default_value for n, a in known.items() if a.default_value.type and not a.required}


def _is_default(draft: Draft, node: onnx.NodeProto, own: AttributeProto) -> bool:
    """Whether the node has the same meaning without the attribute."""
    if own.ref_attr_name:
        return False
    value = helper.get_attribute_value(own)
    default = _defaults(node.op_type, draft.opset).get(own.name)
    if default is not None:
        return bool(value == helper.get_attribute_value(default))
    if node.op_type == "Transpose":
        return list(value) == list(reversed(range(len(value))))
    if node.op_type not in WINDOWS:
        return False
    if own.name == "kernel_shape":
        return node.op_type in INFERRED
    return own.name in IMPLIED and set(value) == {IMPLIED[own.name]}


def _implied(draft: Draft, node: onnx.NodeProto) -> Mapping[int, np.ndarray]:
    """The values that ONNX implies for absent operands, by position. Only for operators whose
    optional operands are numbers, at opsets at which they are operands."""
    type_ = draft.types.get(node.input[0]) if node.input else None
    if type_ is None:
        return {}
    op, opset, rank = node.op_type, draft.opset, type_.rank
    if op == "Pad" and opset >= 11:
        every = {3: np.arange(rank)} if opset >= 18 and rank else {}
        return {2: np.zeros((), type_.dtype.numpy), **every}
    if op == "Slice" and opset >= 10 and len(node.input) > 1 and node.input[1] in draft.types:
        starts = draft.types[node.input[1]]
        count, dtype = starts.sizes[0], starts.dtype.numpy
        return {3: np.arange(count, dtype=dtype), 4: np.ones(count, dtype)}
    if op == "Squeeze" and opset >= 13:
        axes = [i for i, size in enumerate(type_.sizes) if size == 1]
        return {1: np.array(axes, np.int64)} if axes else {}
    if op.startswith("Reduce") and opset >= (13 if op == "ReduceSum" else 18):
        ignored = any(a.name == "noop_with_empty_axes" and a.i for a in node.attribute)
        return {} if ignored or not rank else {1: np.arange(rank)}
    return {}


def _equal(value: np.ndarray | None, array: np.ndarray) -> bool:
    if value is None or value.dtype != array.dtype or value.shape != array.shape:
        return False
    return value.tobytes() == array.tobytes()


Places = list[tuple[onnx.NodeProto, AttributeProto | tuple[int, np.ndarray]]]
"""Nodes, each with an attribute, or with the position and value of an operand."""


def _places(draft: Draft, present: bool) -> Places:
    """Attributes and operands with their default values. present: those that nodes have, or those
    that nodes lack."""
    found: Places = []
    for node in _ordinary(draft):
        if present:
            found += [(node, own) for own in node.attribute if _is_default(draft, node, own)]
        else:
            names = {own.name for own in node.attribute}
            defaults = _defaults(node.op_type, draft.opset).items()
            found += [(node, default) for name, default in defaults if name not in names]
        for place, array in _implied(draft, node).items():
            name = node.input[place] if place < len(node.input) else ""
            if _equal(draft.value(name), array) if present else not name:
                found.append((node, (place, array)))
    return found


def _some(places: list[T], rng: random.Random) -> list[T]:
    """All of the places, or a random non-empty part of them."""
    return places if rng.random() < 0.5 else rng.sample(places, rng.randint(1, len(places)))


@models(FAMILY, lambda draft: [0] if _places(draft, True) else [], kind=Kind.SPELLING)
def defaults_left_out(draft: Draft, site: int, rng: random.Random) -> None:
    """Attributes and constant operands with their default values -> absent, all or some of them:
    ONNX implies the defaults (of schemas, strides, dilations, pads, a kernel's shape, the zeros and
    axes of Pad, axes and steps of Slice, all axes of reductions)."""
    for node, own in _some(_places(draft, True), rng):
        if isinstance(own, AttributeProto):
            node.attribute.remove(own)
            continue
        node.input[own[0]] = ""
        while not node.input[-1]:
            node.input.pop()
    draft.drop_unread()


@models(FAMILY, lambda draft: [0] if _places(draft, False) else [], kind=Kind.SPELLING)
def defaults_written(draft: Draft, site: int, rng: random.Random) -> None:
    """Absent attributes and operands with a default -> the default, for all or some of them."""
    for node, own in _some(_places(draft, False), rng):
        if isinstance(own, AttributeProto):
            node.attribute.append(own)
            continue
        place, array = own
        name = draft.fresh("implied")
        draft.graph.initializer.append(protos.constant_proto(name, array))
        node.input.extend([""] * (place + 1 - len(node.input)))
        node.input[place] = name


_AXIS = (
    "Concat Softmax LogSoftmax Hardmax Gather GatherElements ScatterElements Split ArgMax ArgMin "
    "LayerNormalization TopK Compress Unique Flatten"
).split()
_AXES_INPUT = {"Squeeze": 1, "Slice": 3, "Pad": 3, "CumSum": 1} | {
    f"Reduce{name}": 1 for name in "Max Min Mean Sum Prod L1 L2 LogSum LogSumExp SumSquare".split()
}


def _axis_constant(draft: Draft, node: onnx.NodeProto) -> str:
    """The name of the constant that holds a node's axes; "" for none."""
    position = _AXES_INPUT.get(node.op_type, 1 << 30)
    name = node.input[position] if position < len(node.input) else ""
    return name if name in draft.constants else ""


def _with_axis(draft: Draft, node: onnx.NodeProto) -> bool:
    there = node.op_type in _AXIS and "axis" in attributes(node)
    return (
        bool(node.input)
        and draft.rank(node.input[0]) > 0
        and (there or bool(_axis_constant(draft, node)))
    )


@nodes(FAMILY, (), _with_axis, kind=Kind.SPELLING)
def axis_from_behind(
    emit: Nodes, draft: Draft, node: onnx.NodeProto, rng: random.Random
) -> Sequence[str]:
    """An axis -> the same axis counted from the other end, if the operator admits both."""
    rank, changed = draft.rank(node.input[0]), onnx.NodeProto.FromString(node.SerializeToString())
    for attribute in changed.attribute:
        if attribute.name == "axis" and attribute.i != rank:  # Flatten's end has one name only
            attribute.i += rank if attribute.i < 0 else -rank
    if name := _axis_constant(draft, node):
        axes = draft.value(name)
        assert axes is not None
        other = np.where(axes < 0, axes + rank, axes - rank)
        where = _AXES_INPUT[node.op_type]
        changed.input[where] = emit.const(other, draft.types[name].dtype)
    return emit.copied(changed, changed.input)


_INTEGERS = {DType.INT64: DType.INT32, DType.INT32: DType.INT64}


def _free(draft: Draft) -> list[tuple[int, int]]:
    """Node and position of each constant operand of int32 or int64 for which ONNX admits both."""
    found = []
    for i, node in enumerate(draft.graph.node):
        names = {k: name for k, name in enumerate(node.input) if name in draft.constants}
        if node.domain not in ("", "ai.onnx") or not names:
            continue
        schema = defs.get_schema(node.op_type, draft.opset, "")
        uses = Counter(each.type_str for each in (*schema.inputs, *schema.outputs))
        for position, name in names.items():
            input_ = schema.inputs[min(position, len(schema.inputs) - 1)]
            other = _INTEGERS.get(draft.dtype(name) or DType.BOOL)
            if other and uses[input_.type_str] == 1 and protos.type_name(other) in input_.types:
                found.append((i, position))
    return found


@models(FAMILY, _free, kind=Kind.SPELLING)
def operand_of_other_integers(draft: Draft, site: tuple[int, int], rng: random.Random) -> None:
    """A constant operand, such as an axis or indices, of int64 -> the same numbers in int32, or the
    other way round, where ONNX admits both."""
    i, position = site
    name = draft.graph.node[i].input[position]
    value, dtype = draft.value(name), _INTEGERS[draft.types[name].dtype]
    assert value is not None
    if dtype is DType.INT64 or np.array_equal(value.astype(np.int32), value):
        other = draft.fresh("integers")
        held = protos.constant_proto(other, value.astype(dtype.numpy))
        draft.graph.initializer.append(held)
        draft.graph.node[i].input[position] = other
        draft.drop_unread()


STRINGS = "strings"
WHOLE_NUMBERS = (DType.INT32, DType.INT64, DType.INT16, DType.INT8, DType.UINT8)
MOST_ELEMENTS = 1 << 10
SINCE = 13
"""The first opset at which this module's nodes can be written."""
_EQUAL_SINCE, _TEXT_OPERATORS_SINCE = 19, 20


def is_writable(type_: TensorType) -> bool:
    """Whether the type is that of a few integers."""
    return type_.dtype in WHOLE_NUMBERS and 0 < type_.elements <= MOST_ELEMENTS


def moved(emit: Nodes, text: str, type_: TensorType, rng: random.Random) -> str:
    """The same strings after up to three operators that compute or move strings.

    type_: of the integers that the strings show. The opset must be at least SINCE.
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
    """The name of a new scalar string constant."""
    name = emit.const(np.int64(0), DType.INT64)
    string = onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING)
    string.string_data.append(text.encode())
    emit.initializers[-1] = string
    return name


@values(STRINGS, is_writable, since=SINCE, uses=["Cast"], kind=Kind.FORM)
def through_strings(emit: Nodes, name: str, type_: TensorType, rng: random.Random) -> str:
    """Integers -> Cast to strings, operators that move or compare strings, and Cast back: the
    decimal text of an integer is parsed as that integer."""
    text = emit.one("Cast", name, to=onnx.TensorProto.STRING)
    return emit.one("Cast", moved(emit, text, type_, rng), to=type_.dtype)


def _writable(draft: Draft, names: Sequence[str]) -> list[str]:
    """Names of integers that every compiler writes as the same decimal text. Empty if an input or
    output of the model has a dtype that NumPy lacks: bindings of compilers vary in these."""
    ends = [draft.types.get(name) for name in (*draft.inputs, *draft.outputs)]
    if draft.opset < SINCE or any(type_ and not type_.dtype.native for type_ in ends):
        return []
    return [name for name in names if name in draft.types and is_writable(draft.types[name])]


def _declare(
    draft: Draft, ends: MutableSequence[onnx.ValueInfoProto], name: str, text: str
) -> None:
    """Declare strings in place of an input or output, which becomes an inner value."""
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
    """An output of integers -> an output of strings, the decimal texts that Cast writes."""
    emit, type_ = draft.emitter(), draft.types[site]
    text = moved(emit, emit.one("Cast", site, to=onnx.TensorProto.STRING), type_, rng)
    _declare(draft, draft.graph.output, site, text)
    draft.put(len(draft.graph.node), emit)


@models(
    "string inputs", lambda draft: _writable(draft, draft.inputs), uses=["Cast"], kind=Kind.ENDS
)
def text_input(draft: Draft, site: str, rng: random.Random) -> None:
    """An input of integers -> an input of strings, their decimal texts, which Cast reads."""
    emit, text, type_ = draft.emitter(), draft.fresh("text"), draft.types[site]
    emit.one("Cast", moved(emit, text, type_, rng), to=type_.dtype)
    emit.nodes[-1].output[0] = site
    _declare(draft, draft.graph.input, site, text)
    draft.put(0, emit)


RULES = (
    through_strings,
    text_output,
    text_input,
    defaults_left_out,
    defaults_written,
    axis_from_behind,
    operand_of_other_integers,
)
