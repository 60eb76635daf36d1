"""How much of the disk a campaign takes, and what it does without once that is too much.

The oldest agreeing tests lose what only statistics need: the features of their graphs, motifs and
passes (but where guidance learns from these). Then their rows are packed (see packed.py),
and at last the folders of duplicates, the oldest first (nnfuzz/findings/packed_folder.py). What a
campaign needs to go on stays, and so does every finding; when there is nothing left to pack, the
campaign ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from nnfuzz.findings.packed_folder import is_packed, pack_folder
from nnfuzz.records.schedule import LONGEST
from nnfuzz.store.schema import DUPLICATES, FOLDERS
from nnfuzz.store.store import FILE, Store

LOOK_SECONDS = 20.0
"""Between looks; a campaign writes some MB in that time."""
LARGE_LOG = 64 << 20
"""Bytes of the write-ahead log, beyond which a reader has kept it from being taken over."""
AT_A_TIME = 2000  # tests
AT_ONCE_SECONDS = 2.0  # that making room may hold up a campaign, between two looks


class DiskBudget:
    """limit: bytes; 0 for none. guided: whether old tests are still learnt from on resume.
    epoch: tests in the longest one.
    """

    def __init__(
        self,
        store: Store,
        limit: int,
        note: Callable[[str], None],
        guided: bool = False,
        epoch: int = LONGEST,
    ) -> None:
        self.limit = limit
        self._store = store
        self._note = note
        self._guided = guided
        self._epoch = epoch
        self._looked = -LOOK_SECONDS
        self._full = False
        self._told: set[str] = set()

    def exceeded(self, recorded: int) -> bool:
        """Whether the campaign has to end; looks now and then, and makes room first.

        recorded: the index below which all tests are.
        """
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return self._full
        if log_bytes(self._store.folder) > LARGE_LOG:
            self._store.checkpoint()
        end = time.monotonic() + AT_ONCE_SECONDS
        used = self.used() if self.limit else 0
        duplicates = self._duplicates()
        while used > self.limit and time.monotonic() < end and not self._full:
            gained = self._make_room(recorded - 2 * self._epoch, duplicates)
            if gained is None:
                self._full = True
                self._note(
                    f"the setting disk is reached: findings and the data that the campaign needs "
                    f"take {used >> 20} MB; to go on, --resume with a larger --set disk=SIZE"
                )
            else:
                used -= gained
        self._looked = time.monotonic()
        return self._full

    def _make_room(self, below: int, duplicates: Iterator[Path]) -> int | None:
        """The bytes that something has given back; None if there is nothing to do without.

        below: an index; epochs have learned from all tests that are older than two of them.
        duplicates: folders that are not packed.
        """
        before = self._store.row_bytes()
        if not self._guided and self._store.tests.thin(below, AT_A_TIME):
            self._tell("the oldest tests that agree lose their statistics")
        elif not self._guided and self._store.tests.packs.pack(below):
            self._tell("the oldest tests that agree are packed")
        elif folder := next(duplicates, None):
            self._tell("the folders of the oldest duplicates are packed")
            return self._pack(folder)
        else:
            return None
        self._store.give_back()
        return before - self._store.row_bytes()

    def _duplicates(self) -> Iterator[Path]:
        """Their folders that are not packed, the oldest first."""
        for name in self._store.signatures.folders():
            folder = self._store.folder / name
            if name.startswith(f"{DUPLICATES}/") and folder.is_dir() and not is_packed(folder):
                yield folder

    def _pack(self, folder: Path) -> int:
        """The bytes that this has given back."""
        before = _folder_bytes(folder)
        try:
            pack_folder(folder)
        except OSError as error:
            self._tell(f"{folder} cannot be packed: {error}")
        return before - _folder_bytes(folder)

    def _tell(self, what: str) -> None:
        """Says it once."""
        if what not in self._told:
            self._told.add(what)
            self._note(f"the setting disk is reached: {what}")

    def used(self) -> int:
        """Bytes of the rows and of the folders of findings."""
        return self._store.row_bytes() + self._findings()

    def _findings(self) -> int:
        """Bytes of the folders."""
        return sum(_folder_bytes(self._store.folder / place) for place in FOLDERS)


def log_bytes(folder: Path) -> int:
    """Of the write-ahead log."""
    return _bytes(str(folder / f"{FILE}-wal"))


def _folder_bytes(folder: Path) -> int:
    """Of a folder and all that is in it."""
    walked = ((place, ["", *names]) for place, _, names in os.walk(folder))
    return sum(_bytes(os.path.join(place, name)) for place, names in walked for name in names)


def _bytes(path: str) -> int:
    """On the disk; 0 if it is gone meanwhile."""
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
