"""What graphs could have in them: operators, and how many inputs they take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnfuzz.metrics.tally import DEGREES

if TYPE_CHECKING:
    from nnfuzz.operators.operator import OpSpec


@dataclass(frozen=True)
class Vocabulary:
    """The operators that coverage is measured against (Isra's operation corpus).

    degrees: operator -> how many different numbers of inputs it takes, at most DEGREES.
    """

    degrees: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.degrees)

    def with_(self, names: Iterable[str]) -> Vocabulary:
        """With others, of which nothing is known but that they occur."""
        return Vocabulary({**dict.fromkeys(names, 1), **self.degrees})

    def only(self, names: Collection[str]) -> Vocabulary:
        """These operators alone."""
        return Vocabulary({name: self.degrees.get(name, 1) for name in names})


def of_onnx() -> Vocabulary:
    """The operators of ONNX's own domain that the newest opset has and does not deprecate.

    Constant is left out: a weight may be written in both ways.
    """
    import onnx.defs

    newest: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas():
        if schema.domain == "" and not schema.deprecated and schema.name != "Constant":
            newest[schema.name] = schema
    arities = {name: (s.min_input, s.max_input) for name, s in newest.items()}
    return Vocabulary({name: _degrees(*arities[name]) for name in sorted(arities)})


def of_specs(specs: Iterable[type[OpSpec]]) -> Vocabulary:
    """The operators that campaigns generate from, some of which are one of ONNX in one mode."""
    return Vocabulary({spec.name: _degrees(*spec.arity()) for spec in specs})


def _degrees(low: int, high: int) -> int:
    """Numbers of inputs that count as different."""
    return max(1, min(high, DEGREES) - min(low, DEGREES) + 1)
