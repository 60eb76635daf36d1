"""The wrong outputs of a verdict, read from its JSON form (without importing torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WrongOutput:
    """One wrong output of one (backend, level).

    kind: value, shape, dtype, nonfinite or missing. expected, actual: dtypes or shapes, for these
    kinds. wrong, share: how many elements are wrong, and of the comparable ones. worst: the
    element farthest outside of its envelope: index, expected, actual, lo, hi, excess (ULP).
    """

    backend: str
    level: str
    output: str
    kind: str
    expected: str = ""
    actual: str = ""
    wrong: int = 0
    share: float = 0.0
    worst: Mapping[str, Any] | None = None


def wrong_outputs(verdict: Mapping[str, Any] | None) -> list[WrongOutput]:
    """Every wrong output that Verdict.to_json() lists, in its order; none without a verdict."""
    found = []
    for party, listed in ((verdict or {}).get("mismatches") or {}).items():
        backend, _, level = party.rpartition("/")
        for m in listed:
            found.append(
                WrongOutput(
                    backend,
                    level,
                    m["output"],
                    str(m["kind"]),
                    m.get("expected", ""),
                    m.get("actual", ""),
                    m.get("wrong", 0),
                    m.get("share", 0.0),
                    m.get("worst"),
                )
            )
    return found
