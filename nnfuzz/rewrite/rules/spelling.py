"""Rules that write the attributes and optional operands of all nodes in other words: left out, or
at their defaults.

nnfuzz.rewrite.rules.algebra has rules for those of one node.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
import onnx
from onnx import AttributeProto, defs, helper

from nnfuzz.materialize import protos
from nnfuzz.materialize.walk import reads
from nnfuzz.rewrite.draft import Draft
from nnfuzz.rewrite.rule import models

T = TypeVar("T")

FAMILY = "spelling"
IMPLIED = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
"""Attributes of windows that have this value on every axis where they are absent."""
WINDOWS = frozenset(
    "Conv ConvTranspose ConvInteger QLinearConv MaxPool AveragePool LpPool DeformConv".split()
)
INFERRED = frozenset("Conv ConvTranspose ConvInteger QLinearConv DeformConv".split())
"""Operators whose kernel_shape follows from their weights."""


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


def _removable(draft: Draft) -> list[tuple[onnx.NodeProto, AttributeProto]]:
    return [
        (node, own)
        for node in _ordinary(draft)
        for own in node.attribute
        if not own.ref_attr_name and _is_default(draft, node, own)
    ]


def _absent(draft: Draft) -> list[tuple[onnx.NodeProto, AttributeProto]]:
    found = []
    for node in _ordinary(draft):
        present = {own.name for own in node.attribute}
        defaults = _defaults(node, draft.opset).items()
        found += [(node, default) for name, default in defaults if name not in present]
    return found


@models(FAMILY, lambda draft: [0] if _removable(draft) else [])
def every_default_left_out(draft: Draft, site: int, rng: random.Random) -> None:
    """Attributes with the value that ONNX gives them where they are absent -> none, all of them or
    some: schema defaults, windows that step by 1 without padding, a kernel's shape, a reversal."""
    every = rng.random() < 0.5
    for node, own in _removable(draft):
        if every or rng.random() < 0.5:
            node.attribute.remove(own)


@models(FAMILY, lambda draft: [0] if _absent(draft) else [])
def every_default_written(draft: Draft, site: int, rng: random.Random) -> None:
    """Absent attributes to which ONNX's schema gives a value -> that value, all of them or some."""
    every = rng.random() < 0.5
    for node, default in _absent(draft):
        if every or rng.random() < 0.5:
            node.attribute.append(default)


def _implied_operands(draft: Draft, node: onnx.NodeProto) -> Mapping[int, np.ndarray]:
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


def _is_implied(draft: Draft, name: str, array: np.ndarray) -> bool:
    value = draft.value(name)
    if value is None or value.dtype != array.dtype or value.shape != array.shape:
        return False
    return value.tobytes() == array.tobytes()


def _leavable(draft: Draft) -> list[tuple[onnx.NodeProto, int]]:
    return [
        (node, place)
        for node in _ordinary(draft)
        for place, array in _implied_operands(draft, node).items()
        if place < len(node.input) and _is_implied(draft, node.input[place], array)
    ]


def _missing(draft: Draft) -> list[tuple[onnx.NodeProto, int, np.ndarray]]:
    return [
        (node, place, array)
        for node in _ordinary(draft)
        for place, array in _implied_operands(draft, node).items()
        if place >= len(node.input) or not node.input[place]
    ]


def _some(places: list[T], rng: random.Random) -> list[T]:
    """All of the places, or one or more of them."""
    return places if rng.random() < 0.5 else rng.sample(places, rng.randint(1, len(places)))


@models(FAMILY, lambda draft: [0] if _leavable(draft) else [])
def every_operand_left_out(draft: Draft, site: int, rng: random.Random) -> None:
    """Constant operands with the value that ONNX takes where they are absent -> none, all of them
    or some: the zeros of Pad, the axes and steps of Slice, all axes of reductions and Squeeze."""
    for node, place in _some(_leavable(draft), rng):
        node.input[place] = ""
        while not node.input[-1]:
            node.input.pop()
    read = {name for node in draft.graph.node for name in reads(node)} | {*draft.outputs}
    for tensor in [t for t in draft.graph.initializer if t.name in draft.readers]:
        if tensor.name not in read:
            draft.graph.initializer.remove(tensor)


@models(FAMILY, lambda draft: [0] if _missing(draft) else [])
def every_operand_written(draft: Draft, site: int, rng: random.Random) -> None:
    """Absent operands for which ONNX takes a constant -> that constant, all of them or some."""
    for node, place, array in _some(_missing(draft), rng):
        name = draft.fresh("implied")
        draft.graph.initializer.append(protos.constant_proto(name, array))
        node.input.extend([""] * (place + 1 - len(node.input)))
        node.input[place] = name


RULES = (
    *(every_default_left_out, every_default_written),
    *(every_operand_left_out, every_operand_written),
)
