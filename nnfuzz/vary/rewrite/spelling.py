"""Rules that write attributes, axes and optional operands in other words: left out or at their
defaults, counted from the front or from behind.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import onnx
from onnx import AttributeProto, defs, helper

from nnfuzz.materialize import protos
from nnfuzz.materialize.walk import reads
from nnfuzz.vary.rewrite.draft import Draft, Kind, Nodes, attributes, models, nodes

T = TypeVar("T")

FAMILY = "spelling"
IMPLIED = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
"""Attributes of windows that have this value on every axis where they are absent."""
INFERRED = frozenset("Conv ConvTranspose ConvInteger QLinearConv DeformConv".split())
"""Operators whose kernel_shape follows from their weights."""
WINDOWS = INFERRED | frozenset("MaxPool AveragePool LpPool".split())


def _ordinary(draft: Draft) -> Iterator[onnx.NodeProto]:
    """The nodes of ONNX's own, without those whose attributes exclude each other."""
    own = (node for node in draft.graph.node if node.domain in ("", "ai.onnx"))
    return (node for node in own if node.op_type not in ("Constant", "ConstantOfShape"))


def _defaults(node: onnx.NodeProto, opset: int) -> dict[str, AttributeProto]:
    """The attributes that ONNX gives a value where they are absent, by name."""
    try:
        known = defs.get_schema(node.op_type, opset, "").attributes
    except defs.SchemaError:
        return {}
    return {n: a.default_value for n, a in known.items() if a.default_value.type and not a.required}


def _is_default(draft: Draft, node: onnx.NodeProto, own: AttributeProto) -> bool:
    """Whether a node means the same without an attribute."""
    if own.ref_attr_name:
        return False
    value = helper.get_attribute_value(own)
    default = _defaults(node, draft.opset).get(own.name)
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
    """The constants that ONNX takes for operands which are absent, by position; of operators whose
    optional operands are numbers, at opsets at which they are operands."""
    type_ = draft.types.get(node.input[0]) if node.input else None
    if type_ is None:
        return {}
    op, opset, rank = node.op_type, draft.opset, type_.rank
    if op == "Pad" and opset >= 11:
        return {2: np.zeros((), type_.dtype.numpy)}
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
    """Attributes and operands with which nodes mean the same as without, present or absent."""
    found: Places = []
    for node in _ordinary(draft):
        if present:
            found += [(node, own) for own in node.attribute if _is_default(draft, node, own)]
        else:
            names = {own.name for own in node.attribute}
            defaults = _defaults(node, draft.opset).items()
            found += [(node, default) for name, default in defaults if name not in names]
        for place, array in _implied(draft, node).items():
            name = node.input[place] if place < len(node.input) else ""
            if _equal(draft.value(name), array) if present else not name:
                found.append((node, (place, array)))
    return found


def _some(places: list[T], rng: random.Random) -> list[T]:
    """All of the places, or one or more of them."""
    return places if rng.random() < 0.5 else rng.sample(places, rng.randint(1, len(places)))


@models(FAMILY, lambda draft: [0] if _places(draft, True) else [], kind=Kind.SPELLING)
def defaults_left_out(draft: Draft, site: int, rng: random.Random) -> None:
    """Attributes and constant operands with the value that ONNX gives them where they are absent ->
    none, all of them or some: schema defaults, windows that step by 1 without padding, a kernel's
    shape, a reversal, the zeros of Pad, axes and steps of Slice, all axes of reductions."""
    for node, own in _some(_places(draft, True), rng):
        if isinstance(own, AttributeProto):
            node.attribute.remove(own)
            continue
        node.input[own[0]] = ""
        while not node.input[-1]:
            node.input.pop()
    read = {name for node in draft.graph.node for name in reads(node)} | {*draft.outputs}
    for tensor in [t for t in draft.graph.initializer if t.name in draft.readers]:
        if tensor.name not in read:
            draft.graph.initializer.remove(tensor)


@models(FAMILY, lambda draft: [0] if _places(draft, False) else [], kind=Kind.SPELLING)
def defaults_written(draft: Draft, site: int, rng: random.Random) -> None:
    """Absent attributes and operands to which ONNX gives a value -> that value, all of them or
    some."""
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
    """An axis -> the same axis, counted from the other end, where the operator takes both."""
    rank, changed = draft.rank(node.input[0]), onnx.NodeProto.FromString(node.SerializeToString())
    for attribute in changed.attribute:
        if attribute.name == "axis" and attribute.i != rank:  # Flatten's last one has no other name
            attribute.i += rank if attribute.i < 0 else -rank
    if name := _axis_constant(draft, node):
        axes = draft.value(name)
        assert axes is not None
        other = np.where(axes < 0, axes + rank, axes - rank)
        where = _AXES_INPUT[node.op_type]
        changed.input[where] = emit.const(other, draft.types[name].dtype)
    return emit.copied(changed, changed.input)


RULES = (defaults_left_out, defaults_written, axis_from_behind)
