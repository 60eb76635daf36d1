"""Keeps a campaign within the setting `disk`: deletes statistics and packs old tests.

Three measures are taken in turn, each on the oldest data first:

1. Agreeing tests lose the columns that only statistics need: features of graphs, motifs, passes.
2. Their rows are packed (packed.py).
3. The folders of duplicates are packed (nnfuzz/findings/packed_folder.py).

Every finding stays, and so does all that the campaign needs to go on. When nothing is left to pack,
the campaign ends.
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
"""Seconds between two measurements; a campaign writes some MB in that time."""
LARGE_LOG = 64 << 20
"""Bytes of the write-ahead log above which a checkpoint is asked for: a reader delayed it."""
AT_A_TIME = 2000  # tests that lose their statistics in one step
AT_ONCE_SECONDS = 2.0  # time that making room may take between two measurements


class DiskBudget:
    """Measures a campaign's folder now and then, and makes room when it exceeds its limit.

    limit: bytes; 0 for none. note: prints a line for the user. epoch: tests in the
    longest epoch.
    """

    def __init__(
        self,
        store: Store,
        limit: int,
        note: Callable[[str], None],
        epoch: int = LONGEST,
    ) -> None:
        self.limit = limit
        self._store = store
        self._note = note
        self._epoch = epoch
        self._looked = -LOOK_SECONDS
        self._full = False
        self._noted: set[str] = set()

    def exceeded(self, recorded: int) -> bool:
        """Makes room if needed; returns whether the campaign has to end all the same.

        recorded: all tests below this index are in the store.
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
        """Takes one measure; returns the bytes gained, None if no measure is left.

        below: only tests below this index are touched; later ones may still be learned from.
        duplicates: folders that are not packed.
        """
        before = self._store.row_bytes()
        if self._store.tests.thin(below, AT_A_TIME):
            self._note_once("the oldest tests that agree lose their statistics")
        elif self._store.tests.packs.pack(below):
            self._note_once("the oldest tests that agree are packed")
        elif folder := next(duplicates, None):
            self._note_once("the folders of the oldest duplicates are packed")
            return self._pack(folder)
        else:
            return None
        self._store.give_back()
        return before - self._store.row_bytes()

    def _duplicates(self) -> Iterator[Path]:
        """Folders of duplicates that are not packed, the oldest first."""
        for name in self._store.signatures.folders():
            folder = self._store.folder / name
            if name.startswith(f"{DUPLICATES}/") and folder.is_dir() and not is_packed(folder):
                yield folder

    def _pack(self, folder: Path) -> int:
        """Packs a folder; returns the bytes gained."""
        before = _folder_bytes(folder)
        try:
            pack_folder(folder)
        except OSError as error:
            self._note_once(f"{folder} cannot be packed: {error}")
        return before - _folder_bytes(folder)

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(f"the setting disk is reached: {text}")

    def used(self) -> int:
        """Bytes of the rows and of the folders of findings."""
        return self._store.row_bytes() + self._findings()

    def _findings(self) -> int:
        """Bytes of the folders of findings, suspects and duplicates."""
        return sum(_folder_bytes(self._store.folder / place) for place in FOLDERS)


def log_bytes(folder: Path) -> int:
    """Bytes of the write-ahead log of a campaign."""
    return _bytes(str(folder / f"{FILE}-wal"))


def _folder_bytes(folder: Path) -> int:
    """Bytes of a folder and everything in it."""
    walked = ((place, ["", *names]) for place, _, names in os.walk(folder))
    return sum(_bytes(os.path.join(place, name)) for place, names in walked for name in names)


def _bytes(path: str) -> int:
    """Bytes of a file on the disk; 0 if it no longer exists."""
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
