"""Additions to an opset by a later release of onnx than the one that introduced the opset.

A compiler that is built with the older release rightly refuses them, although its opset is right.
`late_schemas.json` is written by scripts/make/schemas.py, which compares the releases on PyPI.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import onnx
from packaging.version import Version

from nnfuzz.base.reading import read
from nnfuzz.ir.opset_imports import OWN_DOMAINS

LATE, ATTRIBUTE, TYPE = "late", "attribute", "type"


@dataclass(frozen=True)
class SchemaDifference:
    """A difference of one schema between two releases of onnx.

    operator, since: of the schema. brought: the release that introduced its opset. release: the
    later one. change: "late" for an addition, "withdrawn" for a removal. kind: "attribute",
    "input", "output" or "type". name: of the attribute, input, output or type variable. detail: the
    type of an attribute, the option of an input, or the type such as "tensor(bfloat16)".
    """

    operator: str
    since: int
    brought: str
    release: str
    change: str
    kind: str
    name: str
    detail: str


@cache
def schema_differences() -> tuple[SchemaDifference, ...]:
    """All known differences, sorted by the release that made them."""
    text = (files("nnfuzz.check") / "late_schemas.json").read_text()
    return read(tuple[SchemaDifference, ...], json.loads(text))


@cache
def missing(release: str | None) -> frozenset[SchemaDifference]:
    """The additions that a release of onnx lacks; none for None."""
    if release is None:
        return frozenset()
    late = (found for found in schema_differences() if found.change == LATE)
    return frozenset(found for found in late if Version(found.release) > Version(release))


def uses(model: onnx.ModelProto, lacking: Iterable[SchemaDifference], opset: int) -> bool:
    """Whether a node of the model has an attribute that is lacking."""
    late = {(d.operator, d.since, d.name) for d in lacking if d.kind == ATTRIBUTE}
    return any(
        (node.op_type, _since(node.op_type, opset), attribute.name) in late
        for node in model.graph.node
        if node.domain in OWN_DOMAINS
        for attribute in node.attribute
    )


@cache
def _since(operator: str, opset: int) -> int:
    """The version of the schema that is in force; 0 for an unknown operator."""
    if not onnx.defs.has(operator):
        return 0
    return int(onnx.defs.get_schema(operator, max_inclusive_version=opset).since_version)
