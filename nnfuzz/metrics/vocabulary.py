"""The operators that coverage is measured against, with their numbers of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nnfuzz.metrics.tally import DEGREES

if TYPE_CHECKING:
    from nnfuzz.operators.operator import OpSpec


Vocabulary = Mapping[str, int]
"""Operator -> how many different numbers of inputs it takes, at most DEGREES (Isra's operation
corpus)."""


def of_onnx() -> Vocabulary:
    """The operators of ONNX's own domain at the newest opset, without deprecated ones.

    Constant is left out, since a weight may be written as one or not.
    """
    import onnx.defs

    newest: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas():
        if schema.domain == "" and not schema.deprecated and schema.name != "Constant":
            newest[schema.name] = schema
    arities = {name: (s.min_input, s.max_input) for name, s in newest.items()}
    return {name: _degrees(*arities[name]) for name in sorted(arities)}


def of_specs(specs: Iterable[type[OpSpec]]) -> Vocabulary:
    """The operators that campaigns generate from; some are one mode of an ONNX operator."""
    return {spec.name: _degrees(*spec.arity()) for spec in specs}


def _degrees(low: int, high: int) -> int:
    """How many numbers of inputs count as different."""
    return max(1, min(high, DEGREES) - min(low, DEGREES) + 1)
