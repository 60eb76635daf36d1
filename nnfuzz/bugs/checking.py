"""Checks which bugs of a ledger a release still has, and moves their states.

The script of a bug runs in a process of its own with limits of time and memory: in this Python, in
another one, or in a release that is installed for the purpose.
"""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import date
from difflib import SequenceMatcher
from enum import StrEnum
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import (
    WORKER,
    ReleaseError,
    environment_of,
    modules_of,
    package_of,
    requirements,
)
from nnfuzz.base.programs import run_program
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.text import one_line, visible
from nnfuzz.bugs.bug import Bug, BugState, ScriptResult, newer, version_of
from nnfuzz.bugs.ledger import Ledger, Note
from nnfuzz.corpus.results import LevelResult, Status

SECONDS, BYTES = 600.0, 12 << 30
"""Limits of one script: of wall time, and of address space."""
CANNOT_RUN = 125
"""Exit code of a script whose compiler is absent or too old, or fails in another way."""
SIMILAR = 0.6
"""Similarity from which on two messages count as equal. Another release has other line numbers or
one more sentence; where it refuses the opset, the message differs completely."""
_OBSERVED = re.compile(r"Seen at [^:]*: (?P<before>.*?)\n\w+: (?P<now>\w.*)", re.DOTALL)
"""The lines in which a script prints an error: as it was observed, and as it is now."""
_COMPARED = 500  # characters of a message: its beginning names the error
_ABSENT = ("ModuleNotFoundError", "ImportError")
_LACKING = re.compile(r"cannot run: (?:ModuleNotFound|Import|Attribute)Error\b")
"""Message of a script whose compiler is absent or too old; other errors are the compiler's."""


@dataclass(frozen=True)
class ScriptRun:
    """What one run of a script has shown. message: its last line. seconds: wall time."""

    result: ScriptResult
    message: str
    seconds: float = 0.0


def run_script(
    script: Path,
    python: str | Path = sys.executable,
    same_release: bool = False,
    seconds: float = SECONDS,
) -> ScriptRun:
    """Runs the script of a bug in an empty folder.

    same_release: whether the script is known to reproduce in this release; another one may fail for
    another reason than the bug, such as an opset that it refuses.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = run_program(
                [python, script.resolve()],
                {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                cwd=folder,
                timeout=seconds,
                preexec_fn=limited,
            )
        except subprocess.TimeoutExpired:
            found = ScriptResult.OTHERWISE, f"no end within {seconds:.0f} s"
        else:
            found = _read(done, same_release)
    return ScriptRun(found[0], one_line(found[1]), time.monotonic() - start)


def limited() -> None:
    """Sets the limits, in place of those of the command that runs the script."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(done: subprocess.CompletedProcess[str], same_release: bool) -> tuple[ScriptResult, str]:
    """The result of a script that has ended, and its last line."""
    if done.returncode < 0:
        return ScriptResult.REPRODUCES, f"ended by {signal.Signals(-done.returncode).name}"
    errors, printed = done.stderr.strip().splitlines(), done.stdout.strip().splitlines()
    last = (errors or printed or [""])[-1]
    if last.startswith(_ABSENT) or (done.returncode == CANNOT_RUN and _LACKING.search(last)):
        return ScriptResult.CANNOT_RUN, last
    if done.returncode == CANNOT_RUN:  # as well for the same error in the words of another release
        similar = _OBSERVED.search(done.stdout) is not None and _similar(done.stdout)
        return (ScriptResult.REPRODUCES if similar else ScriptResult.OTHERWISE), last
    if "Traceback (most recent call last)" in done.stderr and not printed:
        return ScriptResult.OTHERWISE, last
    message = (printed or [""])[-1]
    if not done.returncode:
        return ScriptResult.RIGHT, message
    similar = same_release or _similar(done.stdout)
    return (ScriptResult.REPRODUCES if similar else ScriptResult.OTHERWISE), message


def _similar(printed: str) -> bool:
    """Whether a script prints no error, or one like that with which the bug was observed."""
    match = _OBSERVED.search(printed)
    if match is None:
        return True
    before, now = (re.sub(r"\d+", "N", match[k])[:_COMPARED] for k in ("before", "now"))
    return SequenceMatcher(None, before, now, autojunk=False).ratio() >= SIMILAR


_ASKING = 60.0
"""Seconds for another Python to print its release."""
_ASK = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


@dataclass(frozen=True)
class Interpreter:
    """An interpreter, and the release of the bug's package there; "" if it is not there."""

    python: str
    release: str


@dataclass(frozen=True)
class Interpreters:
    """Finds and makes the environments for the scripts of bugs. note: of what takes long.

    failed: environments that could not be made, with the reason; each is tried once.
    """

    registry: BackendRegistry
    note: Callable[[str], None]
    failed: dict[tuple[str, ...], ReleaseError] = field(default_factory=dict)

    def package(self, bug: Bug) -> str:
        """The package whose releases count for a bug: its own, or else that of its backend."""
        if bug.package or bug.system not in self.registry.names():
            return bug.package or bug.system
        return package_of(self.registry.get(bug.system)) or bug.system

    def of_python(self, python: str, bug: Bug) -> Interpreter:
        """An interpreter, with whatever release is there. Raises: ReleaseError."""
        try:
            done = run_program([python, "-c", _ASK, self.package(bug)], timeout=_ASKING)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ReleaseError(f"--python {python} cannot be run: {error}") from error
        release = done.stdout.strip().partition("+")[0]  # "+cpu" names no other release
        return Interpreter(python, release if not done.returncode else "")

    def of_release(self, release: str, bug: Bug) -> Interpreter:
        """A release in an environment of its own, which is made if there is none.

        Raises: ReleaseError.
        """
        here, package = self.of_python(sys.executable, bug), self.package(bug)
        if here.release == release:
            return here
        packages: tuple[str, ...] = (f"{package}=={release}", *WORKER)
        modules: tuple[str, ...] = ("numpy", "onnx")
        if bug.system in self.registry.names():
            backend = self.registry.get(bug.system)
            if backend.distribution == package:
                packages, modules = requirements(backend, release), modules_of(backend)
        packages = (*packages, *bug.needs)
        if packages in self.failed:
            raise self.failed[packages]
        try:
            made = environment_of(package, release, packages, modules, self.note)
        except ReleaseError as error:
            self.failed[packages] = error
            raise
        return Interpreter(str(made.python), release)


# -- states ------------------------------------------------------------------------------------

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

    choose: says where the script of a bug runs, or raises ReleaseError. write: whether states move.
    """

    ledger: Ledger
    choose: Callable[[Bug], Interpreter]
    note: Note
    today: date
    write: bool = True
    run: Callable[[Path, str, bool], ScriptRun] = run_script

    def check_all(self, names: Sequence[str]) -> Iterator[Checked]:
        """The results, one after the other, without duplicates. Raises: OSError."""
        for name in names:
            bug = Bug("cannot be read", name.partition("/")[0])
            try:
                bug = self.ledger.bug(name)
                if bug.state is not BugState.DUPLICATE and self.ledger.script(name).is_file():
                    yield self._check(name, bug)
            except Unreadable as error:
                yield Checked(visible(name), "", BugChange.CANNOT_RUN, one_line(error), bug)

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
