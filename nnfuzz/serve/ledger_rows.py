"""The rows, counts and curves of a ledger's dashboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import quote

from nnfuzz.bugs.bug import Bug, BugState
from nnfuzz.bugs.turns import Turn

AGES = ((7, "up to a week"), (31, "up to a month"), (92, "up to a quarter"), (366, "up to a year"))
OLDER = "more than a year"
UNKNOWN = "unknown"
MOST_COUNTED = 20
"""Rows of a table of counts."""
FILTERS = ("life", "system", "kind", "state", "operator", "dtype", "pass", "age")


@dataclass(frozen=True)
class BugRow:
    """A bug in the list. page: its address from the list. life: open or closed. days: since it was
    observed first; None if that day is unknown. about: what a search reads, in lower case.
    """

    name: str
    page: str
    title: str
    system: str
    kind: str
    state: BugState
    life: str
    releases: str
    operators: tuple[str, ...]
    dtypes: tuple[str, ...]
    passes: tuple[str, ...]
    days: int | None
    age: str
    about: str

    def values(self, key: str) -> tuple[str, ...]:
        """The values that a filter chooses from."""
        several = {"operator": self.operators, "dtype": self.dtypes, "pass": self.passes}
        return several.get(key) or tuple(filter(None, (getattr(self, key, ""),)))


def page_of(name: str) -> str:
    """The address of a bug's page, from the top of the dashboard."""
    return f"pages/{quote(name)}.html"


def bug_rows(bugs: Mapping[str, Bug], today: date) -> list[BugRow]:
    """All bugs, open ones first, and the newest of these first."""
    listed = [_row(name, bug, today) for name, bug in bugs.items()]
    return sorted(listed, key=lambda row: (row.life != "open", row.days is None, row.days or 0))


def _row(name: str, bug: Bug, today: date) -> BugRow:
    days = (today - date.fromisoformat(bug.first_seen)).days if bug.first_seen else None
    releases = bug.releases_line
    words = (name, bug.title, bug.system, bug.kind, bug.state, releases, bug.upstream)
    lists = (*bug.operators, *bug.dtypes, *bug.passes, *bug.releases, *bug.signatures)
    return BugRow(
        name,
        page_of(name),
        bug.title,
        bug.system,
        bug.kind,
        bug.state,
        "open" if bug.state.is_open else "closed",
        releases,
        bug.operators,
        bug.dtypes,
        bug.passes,
        days,
        age_of(days),
        " ".join((*words, *lists)).lower(),
    )


def age_of(days: int | None) -> str:
    """The class of an age in words."""
    if days is None:
        return UNKNOWN
    return next((name for most, name in AGES if days <= most), OLDER)


def filters_of(rows: Iterable[BugRow]) -> dict[str, list[str]]:
    """The values of each filter; a filter with fewer than two is left out."""
    listed = list(rows)
    values_of = {key: sorted({v for row in listed for v in row.values(key)}) for key in FILTERS}
    values_of["age"] = [name for name in _ages() if name in values_of["age"]]
    return {key: values for key, values in values_of.items() if len(values) > 1}


def open_counts(rows: Iterable[BugRow]) -> dict[str, list[tuple[str, int]]]:
    """The number of open bugs for each system, kind, operator and age; the largest first."""
    listed = [row for row in rows if row.life == "open"]
    counts_of = {}
    for key in ("system", "kind", "operator", "age"):
        counts = Counter(value for row in listed for value in row.values(key))
        counts_of[key] = counts.most_common(MOST_COUNTED)
    counts_of["age"] = [(name, n) for name in _ages() for own, n in counts_of["age"] if own == name]
    return counts_of


def _ages() -> list[str]:
    return [*(name for _, name in AGES), OLDER, UNKNOWN]


def trends(turns: Sequence[Turn]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Curves over the turns of each system: tests and new bugs so far, and how many operators and
    passes each turn's tests reached.
    """
    return {
        system: _curves([turn for turn in turns if turn.system == system])
        for system in sorted({turn.system for turn in turns})
    }


def _curves(turns: Sequence[Turn]) -> dict[str, list[tuple[float, float]]]:
    tests = new = 0
    curves: dict[str, list[tuple[float, float]]] = {}
    for at, turn in enumerate(turns, 1):
        tests, new = tests + turn.tests, new + turn.new
        points = {"tests": tests, "new bugs": new, "operators": turn.operators}
        for name, value in {**points, "passes": turn.passes}.items():
            curves.setdefault(name, [(0.0, 0.0)]).append((float(at), float(value)))
    return {name: points for name, points in curves.items() if any(y for _, y in points)}
