"""The history of a ledger's bugs: events by day, and the bugs that each release fixed and broke."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from packaging.version import Version

from nnfuzz.bugs.bug import Bug, BugState, ScriptResult

_DATED = re.compile(r"(\d{4}-\d\d-\d\d) (.+)", re.DOTALL)


@dataclass(frozen=True)
class BugEvent:
    """One line of the history of a bug. day: such as 2026-11-23; "" if nobody wrote it down.
    is_first: whether it tells of the bug itself, whatever its title is by now.
    """

    name: str
    day: str
    text: str
    is_first: bool = False

    @property
    def id(self) -> str:
        """Equal for equal events, in every process."""
        about = (self.name,) if self.is_first else (self.name, self.day, self.text)
        return hashlib.sha256(repr(about).encode()).hexdigest()[:16]

    @property
    def line(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass
class ReleaseChanges:
    """Names of the bugs that a release was the first to have right, or wrong again or newly."""

    fixed: list[str] = field(default_factory=list)
    broke: list[str] = field(default_factory=list)


def events(bugs: Mapping[str, Bug]) -> list[BugEvent]:
    """Everything that the ledger has written down, the oldest day first."""
    found = [event for name, bug in bugs.items() for event in events_of(name, bug)]
    return sorted(found, key=lambda event: (event.day, event.name))


def events_of(name: str, bug: Bug) -> list[BugEvent]:
    """The history of one bug: how it was found, then its notes."""
    events = [BugEvent(name, bug.first_seen, f"new: {bug.title}", is_first=True)]
    for note in bug.notes:
        dated = _DATED.fullmatch(note)
        day, text = dated.groups() if dated else ("", note)
        events.append(BugEvent(name, day or bug.first_seen, text))
    return events


def release_changes(bugs: Mapping[str, Bug]) -> dict[str, dict[str, ReleaseChanges]]:
    """The changes of each release, by system and release, the newest release first.

    A change lies between two releases that were run, so a release between them may have made it.
    """
    by_system: dict[str, dict[str, ReleaseChanges]] = {}
    for name, bug in bugs.items():
        if bug.state is BugState.DUPLICATE:
            continue
        for release, result in changes_of(bug).items():
            changes = by_system.setdefault(bug.system, {}).setdefault(release, ReleaseChanges())
            right = result is ScriptResult.RIGHT
            (changes.fixed if right else changes.broke).append(name)
    return {
        system: dict(sorted(of.items(), key=lambda pair: Version(pair[0]), reverse=True))
        for system, of in sorted(by_system.items())
    }


def changes_of(bug: Bug) -> dict[str, ScriptResult]:
    """The releases in which a bug came or went, with what they show. A release in which the script
    could not answer is passed over.
    """
    answers = (ScriptResult.RIGHT, ScriptResult.REPRODUCES)
    known = {release: result for release, result in bug.releases.items() if result in answers}
    if bug.right_release:
        known.setdefault(bug.right_release, ScriptResult.RIGHT)
    ordered = sorted(known, key=Version)
    pairs = pairwise(ordered)
    return {after: known[after] for before, after in pairs if known[before] != known[after]}
