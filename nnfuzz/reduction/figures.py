"""What a reduction did, in figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from nnfuzz.base.reading import read_fields
from nnfuzz.base.writing import ROUNDED


@dataclass
class Spent:
    """The cost of one phase: candidates that ran, candidates whose result was known, seconds."""

    run: int = 0
    repeated: int = 0
    seconds: float = field(default=0.0, metadata=ROUNDED)


@dataclass
class Counter:
    """The candidates of one pass: proposed, rejected before they ran, run, and accepted."""

    proposed: int = 0
    rejected: int = 0
    run: int = 0
    accepted: int = 0
    seconds: float = field(default=0.0, metadata=ROUNDED)


@dataclass(frozen=True)
class ReductionFigures:
    """The entry "reduction" of a finding.json.

    nodes, elements: before and after. confirmed: how many of how many runs in fresh processes
    failed. known: the hash of the known cause that was recognised, or "". spent: by
    phase. passes: by name.
    """

    nodes: tuple[int, int] = (0, 0)
    elements: tuple[int, int] = (0, 0)
    candidates: int = 0
    seconds: float = field(default=0.0, metadata=ROUNDED)
    confirmed: tuple[int, int] = (0, 0)
    known: str = ""
    spent: Mapping[str, Spent] = field(default_factory=dict)
    passes: Mapping[str, Counter] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> ReductionFigures:
        """Fields of other versions are left out. Raises: Unreadable."""
        return cls(**read_fields(cls, data, *(f.name for f in fields(cls))))
