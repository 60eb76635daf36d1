"""The figures of a campaign: kept up with every test, rebuilt from the store on resume."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.rows import FindingRow, TestRow

PHASES = ("generate", "materialize", "export", "inputs", "execute", "compare")
_STEP = math.log(1.02)
Number = TypeVar("Number", int, float)


def _median(counts: Counter[Number]) -> Number:
    """Of what was counted, the lower of two. There has to be something."""
    half, seen = counts.total() / 2, 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= half:
            break
    return value


class Histogram:
    """Seconds in buckets 2 % wide: a median to 1 % whatever the length of the campaign."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.total = 0

    def add(self, value: float) -> None:
        self._counts[round(math.log(max(value, 1e-9)) / _STEP)] += 1
        self.total += 1

    def median(self) -> float:
        """NaN when empty."""
        return math.exp(_median(self._counts) * _STEP) if self.total else math.nan


class Statistics:
    """Counts over all sessions of a campaign.

    outcomes: by kind, one per (test, backend, level). not_run: indexes without a test, by reason.
    motifs: planted ones by name, with "~" behind it where one was changed in a place. comparable:
    shares of outputs, to four places.
    """

    def __init__(self) -> None:
        self.tests = 0
        self.indexes = 0
        self.not_run: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter({kind.value: 0 for kind in OutcomeKind})
        self.by_backend: dict[str, Counter[str]] = {}
        self.motifs: Counter[str] = Counter()
        self.phases = {phase: Histogram() for phase in PHASES}
        self.comparable: Counter[float] = Counter()
        self.full_checks = 0
        self.full_check_finds = 0

    def add(self, row: TestRow) -> None:
        self.indexes += 1
        if row.status == "run":
            self.tests += 1
        else:
            self.not_run[row.status] += 1
        self.motifs.update(row.motifs)
        for phase, seconds in row.seconds.items():
            if phase in self.phases:
                self.phases[phase].add(seconds)
        for backend, levels in row.outcomes.items():
            counts = self.by_backend.setdefault(backend, Counter())
            for outcome in levels.values():
                kind = outcome if isinstance(outcome, str) else outcome["kind"]
                self.outcomes[kind] += 1
                counts[kind] += 1
        if row.comparable is not None:
            self.comparable[round(row.comparable, 4)] += 1

    def phase_ms(self) -> dict[str, float]:
        """Median milliseconds per phase; phases that never ran are left out."""
        found = {phase: h.median() for phase, h in self.phases.items() if h.total}
        return {phase: round(1e3 * seconds, 4) for phase, seconds in found.items()}


def summary(
    figures: Statistics,
    findings: list[FindingRow],
    seconds: float,
    sut_share: float,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """The content of summary.json. seconds: wall, all sessions."""
    comparable = figures.comparable
    return {
        "tests": figures.tests,
        "seconds": round(seconds, 3),
        "tests_per_second": round(figures.tests / seconds, 3) if seconds else 0.0,
        "phase_ms": figures.phase_ms(),
        "sut_share": round(sut_share, 4),
        "outcomes": dict(figures.outcomes),
        "outcomes_by_backend": {k: dict(v) for k, v in figures.by_backend.items()},
        "not_run": dict(figures.not_run),
        "motifs": dict(sorted(figures.motifs.items())),
        "comparable_median": _median(comparable) if comparable else None,
        "findings": len(findings),
        "occurrences": sum(finding.occurrences for finding in findings),
        **extra,
    }
