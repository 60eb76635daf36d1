"""A ledger: a folder with a folder for each bug, which git keeps and any number of people edit.

LEDGER/SYSTEM/NAME/bug.toml   beside it repro.py, report.md and, of our own findings, the model and
its data as nnfuzz.findings.folder has them: a bug's folder is a finding's folder, too.
Everything is written in one step, so that the ledger is whole whenever a process dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.contract import suggest
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.files import PARTIAL, atomic_folder, remove_partial, write_atomically
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import below
from nnfuzz.bugs.bug import FILE, Bug, BugState, bug_text, read_bug, toml_text
from nnfuzz.findings.folder import is_finding
from nnfuzz.findings.reduced import known_by
from nnfuzz.triage.keys import Key, KnownFailures

SCRIPT = "repro.py"
Note = Callable[[str], None]


@dataclass(frozen=True)
class Ledger:
    """The bugs of a folder, by names such as "tvm/mismatch-pow-c29550"."""

    folder: Path

    @classmethod
    def opened(cls, folder: Path) -> Ledger:
        """The ledger in a folder that has one. Raises: Unreadable."""
        if not folder.is_dir():
            raise Unreadable(
                f"there is no ledger {folder}: nnfuzz bugs add CAMPAIGN makes one, --ledger names "
                "another folder"
            )
        return cls(folder)

    def names(self) -> list[str]:
        """Sorted; folders that a process is writing are left out."""
        files = self.folder.rglob(FILE)
        found = (file.parent.relative_to(self.folder) for file in files)
        return sorted(
            name.as_posix()
            for name in found
            if name.parts and not any(part.startswith(PARTIAL) for part in name.parts)
        )

    def bug(self, name: str) -> Bug:
        """Raises: Unreadable."""
        file = self.place(name) / FILE
        if not os.path.lexists(file):
            raise Unreadable(f"{self.folder} has no bug {name!r}; {suggest(name, self.names())}")
        return read_bug(file)

    def bugs(self) -> dict[str, Bug]:
        """All of them by name. Raises: Unreadable for the first that cannot be read."""
        return {name: self.bug(name) for name in self.names()}

    def chosen(self, wanted: Sequence[str]) -> list[str]:
        """The full names of the wanted bugs; all names if none is wanted. A bug is wanted by its
        full name, by the folder around it, or else by its system. Raises: Unreadable for a name
        that fits none.
        """
        found: list[str] = []
        names = self.names()
        for want in wanted:
            fitting = [n for n in names if n == want or n.startswith(f"{want.rstrip('/')}/")]
            fitting = fitting or [n for n in names if self._is_of(want, n)]
            if not fitting:
                known = {*names, *(name.partition("/")[0] for name in names)}
                raise Unreadable(f"{self.folder} has no bug {want!r}; {suggest(want, known)}")
            found += fitting
        return found if wanted else names

    def _is_of(self, system: str, name: str) -> bool:
        """Whether a bug is known to be of a system; one that cannot be read is of none."""
        with suppress(Unreadable):
            return self.bug(name).system == system
        return False

    def place(self, name: str) -> Path:
        """The folder of a bug. Raises: Unreadable for a name that leads out, or that is no text."""
        if not name.isprintable():
            raise Unreadable(f"{self.folder}: rename the folder {name!a}, which is no text")
        return below(self.folder, name)

    def script(self, name: str) -> Path:
        """Where the script of a bug is, if it has one. Raises: Unreadable for a link."""
        script = self.place(name) / SCRIPT
        if script.is_symlink():
            raise Unreadable(f"{script} is a link, which is not followed: put the file there")
        return script

    @contextmanager
    def locked(self, note: Note) -> Iterator[None]:
        """One process at a time changes a ledger; another one waits, and notes that it does.

        Leftovers of killed processes are removed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder, os.O_RDONLY)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                note(f"another process changes the ledger {self.folder}: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            for leftover in list(self.folder.rglob(f"{PARTIAL}*")):
                remove_partial(leftover.parent)
            yield
        finally:
            os.close(lock)

    # -- changes, each in a block of `locked` ---------------------------------------------------

    def add(self, name: str, bug: Bug, fill: Callable[[Path], object] | None = None) -> None:
        """Makes the folder of a bug. fill: writes its other files, before the folder is there.

        Raises: FileExistsError, OSError.
        """
        with atomic_folder(self.place(name)) as made:
            if fill is not None:
                fill(made)
            (made / FILE).write_text(bug_text(bug), encoding="utf-8")

    def put(self, name: str, bug: Bug) -> None:
        """Replaces bug.toml; comments in it stay. Raises: Unreadable, OSError."""
        file = self.place(name) / FILE
        write_atomically(file, bug_text(bug, toml_text(file)).encode())


def is_ledger(folder: Path) -> bool:
    """Whether there is a bug in a folder."""
    return next(folder.rglob(FILE), None) is not None


def recognised_by(
    folders: Iterable[Path], registry: BackendRegistry
) -> tuple[frozenset[str], frozenset[Key]]:
    """Signatures and keys of a finding by its folders, as it was found and as it was reduced."""
    known = KnownFailures.merged(known_by(folder, registry) for folder in folders)
    return known.hashes, frozenset(key for own in known.keys for key in own)


def bugs_of(
    bugs: Mapping[str, Bug], signatures: Iterable[str], keys: Iterable[Key], system: str = ""
) -> list[str]:
    """Names of the bugs that a failure with these signatures and keys has as its cause, the best
    match first, of equal ones an open one; a duplicate counts for its leader. system: of the
    failure; "" for any.
    """
    signatures, keys = frozenset(signatures), frozenset(keys)
    matches: dict[str, float] = {}
    for name, bug in bugs.items():
        if system in ("", bug.system) and (match := bug.match(signatures, keys)):
            known = leader(bugs, name)
            matches[known] = max(match, matches.get(known, 0.0))
    return sorted(matches, key=lambda name: (-matches[name], not bugs[name].state.is_open))


def leader(bugs: Mapping[str, Bug], name: str) -> str:
    """The name of the bug to which a chain of duplicates leads. If the chain is a circle, or leads
    to a bug that does not exist, the result is its last name, which is a duplicate itself.
    """
    seen = [name]
    while (following := bugs[seen[-1]].duplicate_of) in bugs and following not in seen:
        seen.append(following)
    return seen[-1]


def known_bugs(ledger: Ledger, registry: BackendRegistry) -> KnownFailures:
    """The bugs that campaigns need not report again: all but the fixed ones, whose return is news.

    A bug with the files of its finding is also known by what these give under today's rules.
    """
    names = [name for name, bug in ledger.bugs().items() if bug.state is not BugState.FIXED]
    known = [ledger.bug(name).known() for name in names]
    folders = [ledger.place(name) for name in names]
    known += [known_by(folder, registry) for folder in folders if is_finding(folder)]
    return KnownFailures.merged(known)


DECIDED = (BugState.FILED, BugState.CONFIRMED, BugState.WONTFIX, BugState.DUPLICATE)
"""States of bugs that the maintainers know of."""


def refusal(bugs: Mapping[str, Bug], own: Iterable[str]) -> str:
    """Why a finding is not filed a second time; "" if it may be filed.

    own: names of the bugs that it is one of.
    """
    for name in own:
        if bugs[name].upstream or bugs[name].state in DECIDED:
            return f"{name} is {bugs[name].state} already {bugs[name].upstream}".rstrip()
    return ""
