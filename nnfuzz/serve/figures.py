"""The figures of a campaign's page, counted test by test."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nnfuzz.backend.outcome import Brief, OutcomeKind
from nnfuzz.ir.features import Features
from nnfuzz.records.rows import TestRow

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


class CampaignFigures:
    """Counts for the charts of the page, kept up with every test that is added.

    timeline: kind -> outcomes per bin of `width` seconds. heat: operator -> backend -> tests
    by class: failed if any level failed, else unsupported if any was. occurrences: operator ->
    tests.
    """

    def __init__(self) -> None:
        self.width = 1.0
        kinds = [TESTS, *(kind.value for kind in OutcomeKind), NO_TEST]
        self.timeline: dict[str, list[int]] = {kind: [0] * BINS for kind in kinds}
        self.heat: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        self.occurrences: Counter[str] = Counter()
        self.curves = {name: DiversityGrowth() for name in CURVES}

    def add(self, at: float, test: TestRow) -> None:
        """at: seconds of campaign time."""
        self._widen(at)
        place = max(int(at / self.width), 0)
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

    def _widen(self, at: float) -> None:
        """Makes room for a time: bins become twice as wide, as often as it takes."""
        while at >= self.width * BINS:
            self.width *= 2
            for kind, counts in self.timeline.items():
                pairs = [sum(counts[place : place + 2]) for place in range(0, BINS, 2)]
                self.timeline[kind] = pairs + [0] * (BINS - len(pairs))

    def occurred(self) -> dict[str, list[int]]:
        """The timeline, without kinds that never occurred."""
        return {kind: counts for kind, counts in self.timeline.items() if any(counts)}

    def backends(self) -> list[str]:
        return sorted({backend for cells in self.heat.values() for backend in cells})

    def operators(self) -> list[tuple[str, list[Counter[str]]]]:
        """Operators with counts for each backend, the highest share of failures first."""
        rows = [(op, [self.heat[op][b] for b in self.backends()]) for op in self.occurrences]

        def rank(row: tuple[str, list[Counter[str]]]) -> tuple[float, int, str]:
            worst = max(map(failed_share, row[1]), default=0.0)
            return -worst, -self.occurrences[row[0]], row[0]

        return sorted(rows, key=rank)


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


def discoveries(times: Iterable[float], seconds: float) -> list[tuple[float, float]]:
    """(seconds, number of unique findings so far) as a staircase. seconds: of the campaign."""
    found, points = sorted(times), [(0.0, 0.0)]
    if not found:
        return []
    stride = -(-len(found) // MAX_POINTS)
    for count in range(stride, len(found) + 1, stride):
        at = found[count - 1]
        points += [(at, points[-1][1]), (at, float(count))]
    return [*points, (max(seconds, found[-1]), float(len(found)))]


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
