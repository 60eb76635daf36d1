"""The wrong outputs of a verdict, read from its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mismatch:
    """One wrong output of one (backend, level).

    kind: value, shape, dtype or nonfinite. index, reference, lo, hi, actual: of the element
    farthest outside of its envelope, None where the kind has none. detail: more for the title.
    """

    backend: str
    level: str
    output: str
    kind: str
    index: tuple[int, ...] | None = None
    reference: Any = None
    lo: Any = None
    hi: Any = None
    actual: Any = None
    detail: str = ""


def mismatches(verdict: Mapping[str, Any]) -> list[Mismatch]:
    """Every wrong output that the verdict lists, in its order."""
    return []
