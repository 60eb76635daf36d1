"""Rules that write the attributes of all nodes in other words: left out, or at their defaults.

nnfuzz.rewrite.rules.algebra has rules for those of one node.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import onnx
from onnx import AttributeProto, defs, helper

from nnfuzz.rewrite.draft import Draft
from nnfuzz.rewrite.rule import models

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


RULES = (every_default_left_out, every_default_written)
