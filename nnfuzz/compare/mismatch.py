"""Mismatches and verdicts as plain data, with their JSON forms. No torch, no NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

Number = float | int | bool | str
"""A value in a report; floats that are not finite are the strings "nan", "inf" and "-inf"."""


class MismatchKind(StrEnum):
    """In what respect an output differs."""

    VALUE = "value"
    SHAPE = "shape"
    DTYPE = "dtype"
    NONFINITE = "nonfinite"
    MISSING = "missing"


@dataclass(frozen=True)
class Element:
    """One element outside of the envelope `[lo, hi]`.

    excess: how far outside, in units in the last place of the output's dtype at `expected`.
    """

    index: tuple[int, ...]
    expected: Number
    actual: Number
    lo: Number
    hi: Number
    excess: Number


@dataclass(frozen=True)
class Mismatch:
    """How one output of one party differs from the reference.

    expected, actual: the dtypes or shapes, for these kinds. share: of comparable elements that are
    wrong. worst: the element that is furthest outside; first: the first one in C order.
    """

    output: str
    kind: MismatchKind
    expected: str = ""
    actual: str = ""
    wrong: int = 0
    share: float = 0.0
    worst: Element | None = None
    first: Element | None = None

    def __str__(self) -> str:
        if self.worst is None:
            return f"{self.output}: {self.kind} {self.actual or 'none'}, expected {self.expected}"
        w = self.worst
        return (
            f"{self.output}{list(w.index)} is {w.actual}, expected {w.expected} in "
            f"[{w.lo}, {w.hi}]; {self.wrong} elements ({self.share:.0%} of the comparable) are off"
        )


@dataclass(frozen=True)
class Verdict:
    """What the envelope says of every party.

    mismatches: by party, empty where it agrees. comparable: by output, the share of elements that
    the verdict rests on. suspect_reference: all of several parties are flagged (see `judge`).
    """

    mismatches: dict[str, tuple[Mismatch, ...]]
    comparable: dict[str, float]
    suspect_reference: bool = False

    @property
    def ok(self) -> bool:
        """Whether no party has a mismatch."""
        return not any(self.mismatches.values())

    @property
    def comparable_share(self) -> float:
        """Over all elements of all outputs weighed equally by output; 1 without outputs."""
        shares = self.comparable.values()
        return sum(shares) / len(shares) if shares else 1.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        found = {p: tuple(_mismatch(m) for m in ms) for p, ms in data["mismatches"].items()}
        return cls(found, dict(data["comparable"]), data["suspect_reference"])


def _mismatch(data: Mapping[str, Any]) -> Mismatch:
    fields = {**data, "kind": MismatchKind(data["kind"])}
    for name in ("worst", "first"):
        if fields[name] is not None:
            fields[name] = Element(**{**fields[name], "index": tuple(fields[name]["index"])})
    return Mismatch(**fields)
