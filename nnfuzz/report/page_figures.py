"""The figures of a campaign's page, gathered test by test in one pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nnfuzz.backend.outcome import Brief, OutcomeKind
from nnfuzz.ir.features import Features

BINS = 60
MAX_POINTS = 240
TESTS, NO_TEST = "tests", "no test case"
CLASSES = ("ok", "unsupported", "failed")
_RIGHT = (OutcomeKind.OK, OutcomeKind.REFUSED)
CURVES: dict[str, Callable[[Features], set[Any]]] = {
    "operators with dtypes": Features.operator_dtypes,
    "pairs of adjacent operators": Features.operator_edges,
    "vertices (op, attributes, types)": Features.vertices,
}


@dataclass(frozen=True)
class TestLine:
    """One test of a campaign.

    at: seconds of campaign time. status: "run", or why there was nothing to run. outcomes: backend
    -> level -> the stored summary of the outcome. features: None where unknown.
    """

    __test__ = False

    at: float
    status: str
    outcomes: Mapping[str, Mapping[str, Brief]] = field(default_factory=dict)
    features: Features | None = None


class CampaignFigures:
    """Counts for the charts of the page, kept up with every test that is added.

    timeline: kind -> outcomes per bin of `width` seconds. heat: operator -> backend -> tests
    by class: failed if any level failed, else unsupported if any was. occurrences: operator ->
    tests. tests: how many, with and without a model.
    """

    def __init__(self, seconds: float) -> None:
        """seconds: of the whole campaign, as far as it is known."""
        self.width = max(seconds, 1e-9) / BINS
        kinds = [TESTS, *(kind.value for kind in OutcomeKind), NO_TEST]
        self.timeline: dict[str, list[int]] = {kind: [0] * BINS for kind in kinds}
        self.tests = 0
        self.heat: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        self.occurrences: Counter[str] = Counter()
        self.curves = {name: DiversityGrowth() for name in CURVES}

    def widen(self, seconds: float) -> None:
        """Makes room for a campaign that has gone on: bins become twice as wide, as often as it
        takes.
        """
        while seconds > self.width * BINS:
            self.width *= 2
            for kind, counts in self.timeline.items():
                pairs = [sum(counts[place : place + 2]) for place in range(0, BINS, 2)]
                self.timeline[kind] = pairs + [0] * (BINS - len(pairs))

    def occurred(self) -> dict[str, list[int]]:
        """The timeline, without kinds that never occurred."""
        return {kind: counts for kind, counts in self.timeline.items() if any(counts)}

    def add(self, test: TestLine) -> None:
        self.tests += 1
        place = min(max(int(test.at / self.width), 0), BINS - 1)
        self.timeline[TESTS][place] += 1
        kinds = {backend: _kinds(levels) for backend, levels in test.outcomes.items()}
        for kind in [k for levels in kinds.values() for k in levels]:
            self.timeline.setdefault(kind, [0] * BINS)[place] += 1
        if test.status != "run":
            self.timeline[NO_TEST][place] += 1
        if test.features is None or test.status != "run":
            return
        for op in test.features.operators():
            self.occurrences[op] += 1
            for backend, levels in kinds.items():
                self.heat[op][backend][_class(levels)] += 1
        for name, parts in CURVES.items():
            self.curves[name].add(parts(test.features))

    def backends(self) -> list[str]:
        return sorted({backend for cells in self.heat.values() for backend in cells})

    def operators(self) -> list[str]:
        """Operators that occurred, the highest share of failures first."""
        return sorted(
            self.occurrences, key=lambda op: (-self._worst(op), -self.occurrences[op], op)
        )

    def _worst(self, op: str) -> float:
        """The highest share of failures over the backends."""
        return max((failed_share(cell) for cell in self.heat[op].values()), default=0.0)


class DiversityGrowth:
    """How many different things there have been after so many tests, at MAX_POINTS or fewer."""

    def __init__(self) -> None:
        self.tests = 0
        self._seen: set[object] = set()
        self._points: list[tuple[int, int]] = [(0, 0)]
        self._stride = 1

    def add(self, things: set[Any]) -> None:
        self.tests += 1
        self._seen |= things
        if self.tests % self._stride == 0:
            self._points.append((self.tests, len(self._seen)))
        if len(self._points) > MAX_POINTS:
            self._points = self._points[::2]
            self._stride *= 2

    def points(self) -> list[tuple[int, int]]:
        """(tests, different things) in order; the last test is always the last point."""
        last = (self.tests, len(self._seen))
        return self._points if self._points[-1] == last else [*self._points, last]


def failed_share(cell: Mapping[str, int]) -> float:
    """The share of failed tests in a cell of the heat map; 0 if it is empty."""
    total = sum(cell.values())
    return cell.get("failed", 0) / total if total else 0.0


def _kinds(levels: Mapping[str, Brief]) -> list[str]:
    return [brief.kind for brief in levels.values()]


def _class(kinds: list[str]) -> str:
    if all(kind in _RIGHT for kind in kinds):
        return "ok"
    silent = (OutcomeKind.UNSUPPORTED, OutcomeKind.NOT_COMPARED)
    calm = all(kind in (*_RIGHT, *silent) for kind in kinds)
    return "unsupported" if calm else "failed"
