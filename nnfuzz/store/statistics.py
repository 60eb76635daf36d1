"""The figures of a campaign: kept up with every test, rebuilt from the store on resume."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from nnfuzz.backend.outcome import Brief, OutcomeKind, Stage
from nnfuzz.experiment.judge import BLIND
from nnfuzz.records.rows import TestRow
from nnfuzz.vary.faults.fault import INTERNAL, LATE, NOTHING, PLANTED, WORST_FIRST

PHASES = ("generate", "materialize", "export", "inputs", "execute", "compare")
_STEP = math.log(1.02)
MISSED = "~"
"""Stands between a motif and the kind of a near miss, see nnfuzz.operators.motif."""


class Histogram:
    """Seconds in buckets 2 % wide: a median to 1 % in a campaign of any length."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, value: float) -> None:
        self._counts[round(math.log(max(value, 1e-9)) / _STEP)] += 1

    def median(self) -> float:
        """The lower median; NaN when empty."""
        half, below = self._counts.total() / 2, 0
        for bucket in sorted(self._counts):
            below += self._counts[bucket]
            if below >= half:
                return math.exp(bucket * _STEP)
        return math.nan


def plain_name(variation: str) -> str:
    """The name of a variation without the kind of a near miss."""
    return variation.partition(MISSED)[0]


_ANSWERED = (OutcomeKind.OK, OutcomeKind.MISMATCH)


class Statistics:
    """Counts over all sessions of a campaign.

    outcomes: by kind, one per (test, backend, level). questions: calls whose outputs were compared,
    at every level. not_run: indexes without a test, by reason.
    variations, variation_seconds: tests and seconds in all phases, by name of the variation.
    """

    def __init__(self) -> None:
        self.tests = 0
        self.indexes = 0
        self.not_run: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter({kind.value: 0 for kind in OutcomeKind})
        self.questions = 0
        self.by_backend: dict[str, Counter[str]] = {}
        self.variations: Counter[str] = Counter()
        self.variation_seconds: dict[str, float] = {}
        self.phases: dict[str, Histogram] = {}

    def add(self, row: TestRow) -> None:
        self.indexes += 1
        if row.status == "run":
            self.tests += 1
        else:
            self.not_run[row.status] += 1
        names = list(dict.fromkeys(map(plain_name, row.variations)))
        self.variations.update(names)
        seconds, spent = self.variation_seconds, sum(row.seconds.values())
        seconds.update({name: seconds.get(name, 0.0) + spent for name in names})
        for phase, value in row.seconds.items():
            if phase in PHASES:
                self.phases.setdefault(phase, Histogram()).add(value)
        for backend, levels in row.outcomes.items():
            counts = self.by_backend.setdefault(backend, Counter())
            for outcome in levels.values():
                self.outcomes[outcome.kind] += 1
                counts[outcome.kind] += 1
                self.questions += row.calls if outcome.kind in _ANSWERED else 0

    def variation_ms(self, name: str) -> float:
        """Mean milliseconds, in all phases, of the tests with a variation."""
        return round(1e3 * self.variation_seconds[name] / self.variations[name], 3)

    def phase_ms(self) -> dict[str, float]:
        """Median milliseconds per phase; phases that never ran are left out."""
        ran = (phase for phase in PHASES if phase in self.phases)
        return {phase: round(1e3 * self.phases[phase].median(), 4) for phase in ran}


def refusals(tests: Iterable[TestRow]) -> dict[str, dict[str, dict[str, int]]]:
    """The answers of backends to models that they must refuse: kind of fault -> backend -> answer
    -> tests. The worst answer of a test's levels counts.
    """
    by_kind: dict[str, dict[str, Counter[str]]] = {}
    for row in tests:
        kinds = [name.removeprefix(PLANTED) for name in row.variations if name.startswith(PLANTED)]
        for backend, levels in row.outcomes.items() if kinds else ():
            answers = {_answer(level) for level in levels.values()}
            counts = by_kind.setdefault(kinds[0], {}).setdefault(backend, Counter())
            counts.update(answer for answer in [_worst(answers)] if answer)
    return {
        kind: {backend: dict(counts) for backend, counts in sorted(backends.items())}
        for kind, backends in sorted(by_kind.items())
    }


def _answer(brief: Brief) -> str:
    if brief.kind == OutcomeKind.REFUSED and brief.stage == Stage.EXECUTE:
        return LATE
    if brief.kind == OutcomeKind.UNSUPPORTED and brief.message == BLIND:
        return NOTHING
    return INTERNAL if brief.kind == OutcomeKind.EXCEPTION else brief.kind


def _worst(answers: Iterable[str]) -> str:
    return next((answer for answer in WORST_FIRST if answer in answers), "")
