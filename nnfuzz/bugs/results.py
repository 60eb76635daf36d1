"""The results of a check as other tools read them: JSON, and rows for JUnit and Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nnfuzz.base.reading import JsonObject
from nnfuzz.base.writing import as_json, fields_as_json
from nnfuzz.bugs.bug import Bug
from nnfuzz.bugs.checking import NEWS, BugChange, Checked
from nnfuzz.corpus.verify import LevelResult, Status

SCHEMA = 1
_STATUSES = {
    BugChange.BACK: Status.FAILED,
    BugChange.STILL: Status.KNOWN,
    BugChange.BEFORE: Status.KNOWN,
    BugChange.FLAKY: Status.KNOWN,
    BugChange.OTHERWISE: Status.NOT_COMPARED,
    BugChange.GONE: Status.NOT_COMPARED,
    BugChange.CANNOT_RUN: Status.SKIPPED,
}
"""Of a test that must not bring a bug back; all other changes pass."""


def rows(checked: Iterable[Checked]) -> list[LevelResult]:
    """The results as those of tests; the level is the release."""
    return [
        LevelResult(
            c.name,
            c.system,
            c.release,
            _STATUSES.get(c.change, Status.PASSED),
            f"{c.change}: {c.message}",
            seconds=c.seconds,
            kind=c.bug.kind,
        )
        for c in checked
    ]


def results_json(checked: Sequence[Checked]) -> JsonObject:
    """The results with the bugs as they are now, and the names of those that are news."""
    return {
        "schema": SCHEMA,
        "regressions": [c.name for c in checked if c.is_regression],
        "news": [c.name for c in checked if c.change in NEWS],
        "counts": counts(checked),
        "results": [as_json(c) for c in checked],
    }


def bugs_json(bugs: dict[str, Bug]) -> JsonObject:
    """The bugs of a ledger by name."""
    return {"schema": SCHEMA, "bugs": {name: fields_as_json(bug) for name, bug in bugs.items()}}


def counts(checked: Iterable[Checked]) -> dict[str, int]:
    """How many bugs have each change, in the order of BugChange."""
    by_change = Counter(c.change for c in checked)
    return {change.value: by_change[change] for change in BugChange if by_change[change]}
