"""The figures of a campaign: kept up with every test, rebuilt from the store on resume."""

from __future__ import annotations

import math
from collections import Counter
from typing import TypeVar

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.rows import TestRow

PHASES = ("generate", "materialize", "export", "inputs", "execute", "compare")
_STEP = math.log(1.02)
MISSED = "~"
"""Stands between a motif and the kind of a near miss, see nnfuzz.operators.motif."""
Number = TypeVar("Number", int, float)


def median(counts: Counter[Number]) -> Number:
    """Returns the lower median of the values counted; there must be one at least."""
    half, below = counts.total() / 2, 0
    for value in sorted(counts):
        below += counts[value]
        if below >= half:
            break
    return value


class Histogram:
    """Seconds in buckets 2 % wide: a median to 1 % in a campaign of any length."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.total = 0

    def add(self, value: float) -> None:
        self._counts[round(math.log(max(value, 1e-9)) / _STEP)] += 1
        self.total += 1

    def median(self) -> float:
        """NaN when empty."""
        return math.exp(median(self._counts) * _STEP) if self.total else math.nan


def plain_name(variation: str) -> str:
    """The name of a variation without the kind of a near miss."""
    return variation.partition(MISSED)[0]


class Statistics:
    """Counts over all sessions of a campaign.

    outcomes: by kind, one per (test, backend, level). not_run: indexes without a test, by reason.
    variations, variation_seconds: tests and seconds in all phases, by name of the variation.
    writers: tests that ran, by exporter, with the opset where that was drawn. comparable: shares of
    outputs, to four places.
    """

    def __init__(self) -> None:
        self.tests = 0
        self.indexes = 0
        self.not_run: Counter[str] = Counter()
        self.writers: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter({kind.value: 0 for kind in OutcomeKind})
        self.by_backend: dict[str, Counter[str]] = {}
        self.variations: Counter[str] = Counter()
        self.variation_seconds: dict[str, float] = {}
        self.phases = {phase: Histogram() for phase in PHASES}
        self.comparable: Counter[float] = Counter()
        self.full_checks = 0
        self.full_check_finds = 0

    def add(self, row: TestRow) -> None:
        self.indexes += 1
        if row.status == "run":
            self.tests += 1
            self.writers[row.exporter] += 1
        else:
            self.not_run[row.status] += 1
        names = list(dict.fromkeys(map(plain_name, row.variations)))
        self.variations.update(names)
        seconds, spent = self.variation_seconds, sum(row.seconds.values())
        seconds.update({name: seconds.get(name, 0.0) + spent for name in names})
        for phase, value in row.seconds.items():
            if phase in self.phases:
                self.phases[phase].add(value)
        for backend, levels in row.outcomes.items():
            counts = self.by_backend.setdefault(backend, Counter())
            for outcome in levels.values():
                self.outcomes[outcome.kind] += 1
                counts[outcome.kind] += 1
        if row.comparable is not None:
            self.comparable[round(row.comparable, 4)] += 1

    def variation_ms(self, name: str) -> float:
        """Mean milliseconds, in all phases, of the tests with a variation."""
        return round(1e3 * self.variation_seconds[name] / self.variations[name], 3)

    def phase_ms(self) -> dict[str, float]:
        """Median milliseconds per phase; phases that never ran are left out."""
        medians = {phase: h.median() for phase, h in self.phases.items() if h.total}
        return {phase: round(1e3 * seconds, 4) for phase, seconds in medians.items()}
