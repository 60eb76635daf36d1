"""Inputs and outputs of the file that are sequences or optionals of tensors, or strings."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import onnx

from nnfuzz.base.packed_values import PackedValue, PackingKind
from nnfuzz.ir.dtypes import DType
from nnfuzz.materialize import protos
from nnfuzz.rewrite.draft import Draft, Nodes
from nnfuzz.rewrite.rule import models
from nnfuzz.rewrite.rules.strings import SINCE, is_writable, moved

OPTIONAL_SINCE = 15
OPTIONAL_IR = 8
SEQUENCE_SINCE = 11


def _alike(draft: Draft, names: Sequence[str], since: int) -> list[tuple[str, ...]]:
    """The tensors with these names whose type is known, in groups of one dtype. There are none if
    an input or output of the model has a dtype that NumPy lacks: bindings of compilers take such
    ones in other ways.
    """
    ends = [draft.types.get(name) for name in (*draft.inputs, *draft.outputs)]
    if draft.opset < since or any(type_ and not type_.dtype.native for type_ in ends):
        return []
    groups: dict[DType, list[str]] = {}
    for name in (name for name in names if name in draft.types):
        groups.setdefault(draft.types[name].dtype, []).append(name)
    return [tuple(group) for group in groups.values()]


def _computed(draft: Draft) -> list[str]:
    return [name for name in draft.outputs if name in draft.makers]


def _end(draft: Draft, name: str, tensors: Sequence[str], kind: PackingKind) -> onnx.ValueInfoProto:
    """The declaration of an input or output that packs tensors. A sequence has the shape of its
    tensors where that is the same for all."""
    types = [draft.types[tensor] for tensor in tensors]
    shapes = {tensor: type_.sizes for tensor, type_ in zip(tensors, types)}
    value = PackedValue(kind, types[0].dtype.value, shapes)
    item = protos.value_info("", types[0]).type
    if any(not type_.same(types[0]) for type_ in types):
        item.tensor_type.ClearField("shape")
    end = onnx.ValueInfoProto(name=name, doc_string=value.doc_string)
    if kind is PackingKind.TEXT:
        item.tensor_type.elem_type = onnx.TensorProto.STRING
        end.type.CopyFrom(item)
    else:
        getattr(end.type, kind).elem_type.CopyFrom(item)
    return end


def _replaced(
    values: list[onnx.ValueInfoProto], names: Sequence[str], end: onnx.ValueInfoProto
) -> list[onnx.ValueInfoProto]:
    """The declarations with one in place of those of some names, where the first of them was."""
    place = min(i for i, value in enumerate(values) if value.name in names)
    kept = [value for value in values if value.name not in names]
    return [*kept[:place], end, *kept[place:]]


def _set(values: object, new: Iterable[onnx.ValueInfoProto]) -> None:
    copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in new]
    del values[:]  # type: ignore[attr-defined]
    values.extend(copies)  # type: ignore[attr-defined]


def _deliver(draft: Draft, names: Sequence[str], emit: Nodes, end: onnx.ValueInfoProto) -> None:
    """Computes an output in place of some, which become inner values of their known types."""
    inner = [protos.value_info(name, draft.types[name]) for name in names]
    _set(draft.graph.output, _replaced([*draft.graph.output], names, end))
    draft.put(len(draft.graph.node), emit)
    draft.graph.value_info.extend(inner)


def _take(draft: Draft, names: Sequence[str], emit: Nodes, end: onnx.ValueInfoProto) -> None:
    """Takes an input in place of some, which are computed by the nodes of an emitter, in order."""
    inner = [protos.value_info(name, draft.types[name]) for name in names]
    _set(draft.graph.input, _replaced([*draft.graph.input], names, end))
    draft.put(0, emit)
    draft.graph.value_info.extend(inner)


def _some(names: Sequence[str], rng: random.Random) -> list[str]:
    return rng.sample(names, rng.randint(1, len(names)))


@models(
    "sequence outputs",
    lambda draft: _alike(draft, _computed(draft), SEQUENCE_SINCE),
    uses=["SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase"],
)
def sequence_output(draft: Draft, site: tuple[str, ...], rng: random.Random) -> None:
    """Outputs of one dtype -> an output that is the sequence of them: constructed at once, from an
    empty one, or with an element that is erased again."""
    names, emit = _some(site, rng), draft.emitter()
    way = rng.choice(("constructed", "inserted", "erased"))
    if way == "inserted":
        sequence = emit.one("SequenceEmpty", dtype=draft.types[names[0]].dtype)
        for name in names:
            sequence = emit.one("SequenceInsert", sequence, name)
    elif way == "erased":
        place = rng.randint(0, len(names))
        more = [*names[:place], rng.choice(names), *names[place:]]
        sequence = emit.one("SequenceConstruct", *more)
        sequence = emit.one("SequenceErase", sequence, emit.const(place, DType.INT64))
    else:
        sequence = emit.one("SequenceConstruct", *names)
    _deliver(draft, names, emit, _end(draft, sequence, names, PackingKind.SEQUENCE))


@models(
    "sequence inputs",
    lambda draft: _alike(draft, draft.inputs, SEQUENCE_SINCE),
    uses=["SequenceAt"],
)
def sequence_input(draft: Draft, site: tuple[str, ...], rng: random.Random) -> None:
    """Inputs of one dtype -> an input that is the sequence of them; SequenceAt takes each element
    out of it, counted from the front or from behind."""
    names, emit, sequence = _some(site, rng), draft.emitter(), draft.fresh("sequence")
    for i, name in enumerate(names):
        at = emit.const(rng.choice((i, i - len(names))), DType.INT64)
        emit.one("SequenceAt", sequence, at)
        emit.nodes[-1].output[0] = name
    _take(draft, names, emit, _end(draft, sequence, names, PackingKind.SEQUENCE))


@models(
    "optional outputs",
    lambda draft: _alike(draft, _computed(draft), OPTIONAL_SINCE),
    uses=["Optional"],
)
def optional_output(draft: Draft, site: tuple[str, ...], rng: random.Random) -> None:
    """An output -> an output that is the optional of it, which has it."""
    emit, name = draft.emitter(), rng.choice(site)
    draft.needs_ir(OPTIONAL_IR)
    optional = emit.one("Optional", name)
    _deliver(draft, [name], emit, _end(draft, optional, [name], PackingKind.OPTIONAL))


@models(
    "optional inputs",
    lambda draft: _alike(draft, draft.inputs, OPTIONAL_SINCE),
    uses=["OptionalGetElement"],
)
def optional_input(draft: Draft, site: tuple[str, ...], rng: random.Random) -> None:
    """An input -> an input that is the optional of it; OptionalGetElement takes it out."""
    emit, name, optional = draft.emitter(), rng.choice(site), draft.fresh("optional")
    draft.needs_ir(OPTIONAL_IR)
    emit.one("OptionalGetElement", optional)
    emit.nodes[-1].output[0] = name
    _take(draft, [name], emit, _end(draft, optional, [name], PackingKind.OPTIONAL))


def _whole(draft: Draft, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Integers that every compiler writes as the same decimal numbers, in groups of one dtype."""
    few = [name for name in names if name in draft.types and is_writable(draft.types[name])]
    return _alike(draft, few, SINCE)


@models("string outputs", lambda draft: _whole(draft, _computed(draft)), uses=["Cast"])
def text_output(draft: Draft, site: tuple[str, ...], rng: random.Random) -> None:
    """An output of integers -> an output of strings, the decimal numbers that Cast writes."""
    emit, name = draft.emitter(), rng.choice(site)
    text = moved(emit, emit.one("Cast", name, to=onnx.TensorProto.STRING), draft.types[name], rng)
    _deliver(draft, [name], emit, _end(draft, text, [name], PackingKind.TEXT))


@models("string inputs", lambda draft: _whole(draft, draft.inputs), uses=["Cast"])
def text_input(draft: Draft, site: tuple[str, ...], rng: random.Random) -> None:
    """An input of integers -> an input of strings, their decimal numbers, which Cast reads."""
    emit, name, text = draft.emitter(), rng.choice(site), draft.fresh("text")
    emit.one("Cast", moved(emit, text, draft.types[name], rng), to=draft.types[name].dtype)
    emit.nodes[-1].output[0] = name
    _take(draft, [name], emit, _end(draft, text, [name], PackingKind.TEXT))


RULES = (
    *(sequence_output, sequence_input, optional_output, optional_input),
    *(text_output, text_input),
)
