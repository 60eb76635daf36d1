"""The operators that coverage is measured against, with their numbers of inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnfuzz.metrics.tally import DEGREES

if TYPE_CHECKING:
    from nnfuzz.operators.operator import OpSpec


@dataclass(frozen=True)
class OperatorVocabulary:
    """The operators that coverage is measured against (Isra's operation corpus).

    degrees: operator -> how many different numbers of inputs it takes, at most DEGREES.
    """

    degrees: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.degrees)

    def with_(self, names: Iterable[str]) -> OperatorVocabulary:
        """The vocabulary with further operators that are known by name only."""
        return OperatorVocabulary({**dict.fromkeys(names, 1), **self.degrees})

    def only(self, names: Collection[str]) -> OperatorVocabulary:
        """The vocabulary of these operators alone."""
        return OperatorVocabulary({name: self.degrees.get(name, 1) for name in names})


def of_onnx() -> OperatorVocabulary:
    """The operators of ONNX's own domain at the newest opset, without deprecated ones.

    Constant is left out, since a weight may be written as one or not.
    """
    import onnx.defs

    newest: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas():
        if schema.domain == "" and not schema.deprecated and schema.name != "Constant":
            newest[schema.name] = schema
    arities = {name: (s.min_input, s.max_input) for name, s in newest.items()}
    return OperatorVocabulary({name: _degrees(*arities[name]) for name in sorted(arities)})


def of_specs(specs: Iterable[type[OpSpec]]) -> OperatorVocabulary:
    """The operators that campaigns generate from; some are one mode of an ONNX operator."""
    return OperatorVocabulary({spec.name: _degrees(*spec.arity()) for spec in specs})


def _degrees(low: int, high: int) -> int:
    """How many numbers of inputs count as different."""
    return max(1, min(high, DEGREES) - min(low, DEGREES) + 1)
