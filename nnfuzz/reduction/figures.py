"""What a reduction did, in figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from nnfuzz.reading import read_fields


@dataclass
class Spent:
    """The cost of one phase: candidates that ran, candidates whose result was known, seconds."""

    run: int = 0
    repeated: int = 0
    seconds: float = 0.0


@dataclass
class Counter:
    """The candidates of one pass: proposed, rejected before they ran, run, and accepted."""

    proposed: int = 0
    rejected: int = 0
    run: int = 0
    accepted: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Figures:
    """The entry "reduction" of a finding.json.

    nodes, elements: before and after. confirmed: how many of how many runs in fresh processes
    failed. known: the refined signature of the known cause that was recognised, or "". spent: by
    phase. passes: by name.
    """

    nodes: tuple[int, int] = (0, 0)
    elements: tuple[int, int] = (0, 0)
    candidates: int = 0
    seconds: float = 0.0
    confirmed: tuple[int, int] = (0, 0)
    known: str = ""
    spent: Mapping[str, Spent] = field(default_factory=dict)
    passes: Mapping[str, Counter] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return _rounded(asdict(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Figures:
        """Fields of other versions are left out. Raises: Unreadable."""
        return cls(**read_fields(cls, data, *(f.name for f in fields(cls))))


def _rounded(value: Any) -> Any:
    """The value with milliseconds in place of longer fractions."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return round(value, 3) if isinstance(value, float) else value
