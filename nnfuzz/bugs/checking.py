"""Checks which bugs of a ledger a release still has, and moves their states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path

from nnfuzz.backend.releases import ReleaseError
from nnfuzz.base.text import one_line
from nnfuzz.bugs.bug import Bug, BugState, ScriptResult, newer, version_of
from nnfuzz.bugs.ledger import Ledger, Note
from nnfuzz.bugs.scripts import Choose, Interpreter, ScriptRun, run_script
from nnfuzz.corpus.results import LevelResult, Status

REPEATS = 3
"""Runs of a script that does not reproduce its bug, before that is believed."""


class BugChange(StrEnum):
    """The result of a check for a bug. BACK is a regression. GONE: it does not reproduce in a
    release in which it did. ABSENT: a release before or behind the bad ones does not have it, as is
    known.
    """

    STILL = "still there"
    FIXED = "fixed"
    BACK = "back"
    FLAKY = "reproduces now and then"
    GONE = "does not reproduce where it did"
    ABSENT = "not there"
    BEFORE = "there, and fixed later"
    OTHERWISE = "fails otherwise"
    CANNOT_RUN = "cannot run here"


_DOUBTED = (BugChange.FIXED, BugChange.GONE)
"""Changes that count only if the script is right several times."""
NEWS = (BugChange.FIXED, BugChange.BACK, BugChange.FLAKY, BugChange.GONE, BugChange.OTHERWISE)
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


@dataclass(frozen=True)
class Checked:
    """The result for one bug. release: "" if the compiler is not there. bug: as it is now.
    fixed_in: the release that was right before it came back. seconds: of its runs.
    """

    name: str
    release: str
    change: BugChange
    message: str
    bug: Bug
    seconds: float = 0.0
    fixed_in: str = ""

    @property
    def line(self) -> str:
        """One line about it, for a terminal."""
        change = f"fixed in {self.bug.right_release}" if self.change is BugChange.FIXED else ""
        change = f"back, was fixed in {self.fixed_in or '?'}" if self.is_regression else change
        where = f"{self.bug.system} {self.release}".strip()
        return f"{self.name}: {change or self.change} ({where}): {self.message}"

    @property
    def is_regression(self) -> bool:
        return self.change is BugChange.BACK

    @property
    def row(self) -> LevelResult:
        """The result as that of a test, for JUnit and Markdown; the level is the release."""
        status = _STATUSES.get(self.change, Status.PASSED)
        message, place = f"{self.change}: {self.message}", (self.name, self.bug.system)
        return LevelResult(
            *place, self.release, status, message, seconds=self.seconds, kind=self.bug.kind
        )


def counts(checked: Iterable[Checked]) -> dict[str, int]:
    """How many bugs have each change, in the order of BugChange."""
    by_change = Counter(c.change for c in checked)
    return {change.value: by_change[change] for change in BugChange if by_change[change]}


def judged(bug: Bug, release: str, runs: Sequence[ScriptRun], today: date) -> tuple[BugChange, Bug]:
    """The change that the runs of a bug's script in a release mean, and the bug with its new state.

    runs: at least one; several only if the first ones do not reproduce the bug.
    """
    results = {run.result for run in runs}
    if results == {ScriptResult.REPRODUCES}:
        return _reproduced(bug, release, today)
    if ScriptResult.REPRODUCES in results:
        flaky = replace(bug.failing_in(release), state=BugState.FLAKY)
        is_news = bug.state is not BugState.FLAKY
        return BugChange.FLAKY, flaky.noted(f"flaky in {release}", today) if is_news else bug
    if runs[-1].result is ScriptResult.CANNOT_RUN:
        return BugChange.CANNOT_RUN, bug
    if runs[-1].result is ScriptResult.OTHERWISE:
        releases = {release: ScriptResult.OTHERWISE, **bug.releases}
        return BugChange.OTHERWISE, replace(bug, releases=releases)
    return _right(bug, release, today)


def _reproduced(bug: Bug, release: str, today: date) -> tuple[BugChange, Bug]:
    now = bug.failing_in(release)
    if bug.state is not BugState.FIXED:
        return BugChange.STILL, now
    behind = newer(release, bug.last_bad_release) and not newer(bug.right_release, release)
    if not behind:
        return BugChange.BEFORE, now
    back = replace(now, state=BugState.CONFIRMED, right_release="")
    return BugChange.BACK, back.noted(f"back in {release}, was fixed in {bug.right_release}", today)


def _right(bug: Bug, release: str, today: date) -> tuple[BugChange, Bug]:
    if bug.state is BugState.FLAKY:  # that it is right once more proves nothing
        releases = {release: ScriptResult.RIGHT, **bug.releases}
        return BugChange.ABSENT, replace(bug, releases=releases)
    if bug.releases.get(release) is ScriptResult.REPRODUCES:
        return BugChange.GONE, bug
    now = replace(bug, releases={**bug.releases, release: ScriptResult.RIGHT})
    if bug.last_bad_release and not newer(release, bug.last_bad_release):
        return BugChange.ABSENT, now
    if not bug.right_release or newer(bug.right_release, release):
        now = replace(now, right_release=release)
    if bug.state is BugState.FIXED:
        return BugChange.ABSENT, now
    fixed = replace(now, state=BugState.FIXED)
    return BugChange.FIXED, fixed.noted(f"fixed in {release}", today)


@dataclass(frozen=True)
class Checker:
    """Runs the scripts of a ledger in one release of each system.

    choose: says where the script of a bug runs. write: whether states move.
    """

    ledger: Ledger
    choose: Choose
    note: Note
    today: date
    write: bool = True
    run: Callable[[Path, str, bool], ScriptRun] = run_script

    def check_all(self, bugs: dict[str, Bug]) -> Iterator[Checked]:
        """The results, one after the other, without duplicates. Raises: OSError."""
        for name, bug in bugs.items():
            if bug.state is not BugState.DUPLICATE and self.ledger.script(name).is_file():
                yield self._check(name, bug)

    def _check(self, name: str, bug: Bug) -> Checked:
        try:
            place = self.choose(bug)
        except ReleaseError as error:
            return Checked(name, "", BugChange.CANNOT_RUN, one_line(error), bug)
        if version_of(place.release) is None:
            reason = f"{bug.system} is not installed"
            return Checked(name, "", BugChange.CANNOT_RUN, reason, bug)
        runs = self._runs(name, bug, place)
        with self.ledger.locked(self.note) if self.write else nullcontext():
            before = self.ledger.bug(name)  # somebody may have changed it meanwhile
            change, now = judged(before, place.release, runs, self.today)
            if self.write and now != before:
                self.ledger.put(name, now)
        message, seconds = runs[-1].message, sum(run.seconds for run in runs)
        return Checked(name, place.release, change, message, now, seconds, bug.right_release)

    def _runs(self, name: str, bug: Bug, place: Interpreter) -> list[ScriptRun]:
        """Runs the script, and again while it is right; one that reproduces ends it."""
        same = bug.releases.get(place.release) is ScriptResult.REPRODUCES
        runs: list[ScriptRun] = []
        while len(runs) < REPEATS:
            runs.append(self.run(self.ledger.script(name), place.python, same))
            change, _ = judged(bug, place.release, runs, self.today)
            if runs[-1].result is not ScriptResult.RIGHT or change not in _DOUBTED:
                break
        return runs
